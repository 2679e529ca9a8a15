// A communicator on the engine's side: its members, what they ask for, and the collective that it
// executes. Created by attach (the world) and by split, which is where everything is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/matcher.hpp"
#include "daemon/collectives/ring.hpp"
#include "shm/hints_data.hpp"

namespace npu::daemon {

struct Group {
  /// `world_ranks`: by member. `blocks`: of the largest arena, for sums of squares.
  Group(uint32_t group_id, std::span<const uint8_t> world_ranks, uint64_t blocks);

  uint32_t id;
  uint32_t size;
  uint32_t rank_mask = 0;                           // world ranks
  std::array<uint8_t, shm::kMaxDevices> members{};  // world rank of each member
  Matcher matcher;
  Ring ring;
  Active* current = nullptr;
  std::unique_ptr<double[]> block_sums;

  /// Member index of a world rank; -1 if it is none.
  [[nodiscard]] int member_of(uint32_t world_rank) const noexcept;
};

/// The communicators of one run, by id. Ids are never used twice.
class GroupTable {
 public:
  GroupTable(uint32_t world, uint64_t blocks);

  [[nodiscard]] Group* find(uint32_t id) noexcept;
  /// Null when the table or the memory is full.
  [[nodiscard]] Group* create(std::span<const uint8_t> world_ranks) noexcept;
  /// Takes it out of the table; the caller frees it when no engine thread uses its ring any more.
  [[nodiscard]] std::unique_ptr<Group> release(uint32_t id) noexcept;
  [[nodiscard]] uint32_t free_slots() const noexcept;

  /// The slots that are in use, by slot; null where free.
  [[nodiscard]] std::span<const std::unique_ptr<Group>> slots() const noexcept { return slots_; }
  [[nodiscard]] Group& world() noexcept { return *slots_[0]; }
  [[nodiscard]] const Group& world() const noexcept { return *slots_[0]; }

 private:
  uint64_t blocks_;
  std::array<std::unique_ptr<Group>, shm::kMaxCommunicators> slots_;
  std::array<uint32_t, shm::kMaxCommunicators> next_id_;
};

}  // namespace npu::daemon
