// The daemon's end of a run's journal: written before members are told anything, read by the next
// daemon when this one dies. docs/design/019-daemon-restart.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/collectives/active.hpp"
#include "shm/journal_data.hpp"
#include "shm/segment.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::daemon {

/// Tickets by rank of the world, of those in `rank_mask`.
struct Told {
  uint32_t rank_mask = 0;
  std::array<uint64_t, shm::kMaxDevices> tickets{};
  uint64_t second = shm::kNoTicket;  // of the only rank, which sent to itself
};

/// A reduction that the daemon before was in the middle of; a private copy.
struct HalfReduction {
  uint32_t flags = 0;
  uint64_t slices = 0;
  uint64_t slice_elements = 0;
  std::array<uint64_t, shm::kMaxDevices> tickets{};
};

/// Stores are in program order, and the death of a process falls between two of its instructions:
/// what follows a store in the code is not there unless the store is. Thread: the engine's
/// coordinator, but for what SliceJournal hands to all engine threads.
class Journal {
 public:
  Journal() = default;
  explicit Journal(shm::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}

  /// For a run of `world` ranks, the largest arena as given. Errors: create_segment's.
  [[nodiscard]] static Result<shm::Segment> create(uint64_t generation, uint32_t world,
                                                   uint64_t arena_bytes);
  /// Takes one back; the marks must be what its size says. Errors: data_loss.
  [[nodiscard]] static Result<Journal> adopt(shm::Mapping mapping, uint32_t world);

  [[nodiscard]] bool valid() const noexcept { return mapping_.data() != nullptr; }
  /// False once the run has communicators that the journal knows nothing of.
  [[nodiscard]] bool complete() const noexcept;
  void give_up() noexcept;

  /// Before the first of the members is told.
  void announce(const Told& told, const shm::CompletionFields& fields) noexcept;
  /// All of them are told.
  void announced() noexcept;
  void set_next_sequence(uint64_t sequence) noexcept { page().run.sequence = sequence; }
  [[nodiscard]] uint64_t next_sequence() const noexcept { return page().run.sequence; }
  void member_left(uint32_t rank) noexcept;
  [[nodiscard]] uint32_t left_mask() const noexcept;

  /// False if it does not fit, which no arena of this run allows.
  [[nodiscard]] bool begin(const Active& active, const Told& told) noexcept;
  /// Where engine threads note how far the slices of the reduction are.
  [[nodiscard]] SliceJournal slices() noexcept;
  void end() noexcept;

  /// How many slices a reduction may have: there is a mark for each.
  [[nodiscard]] uint64_t room() const noexcept {
    return mapping_.size() - sizeof(shm::RunJournal) - shm::kScratchSlots * shm::kScratchBytes;
  }

  /// What was going on when the daemon died; nothing in most cases. Untrusted: slices and their
  /// size are as found.
  [[nodiscard]] bool half_reduction(HalfReduction& into) const noexcept;
  /// Tells those members in whose pages the last verdict is missing.
  void repeat_verdict(std::span<shm::StatusPage* const> pages) noexcept;

 private:
  [[nodiscard]] shm::RunJournal& page() noexcept {
    return *reinterpret_cast<shm::RunJournal*>(mapping_.data());
  }
  [[nodiscard]] const shm::RunJournal& page() const noexcept {
    return *reinterpret_cast<const shm::RunJournal*>(mapping_.data());
  }
  [[nodiscard]] std::byte* after_page() noexcept {
    return mapping_.data() + sizeof(shm::RunJournal);
  }

  shm::Mapping mapping_;
};

/// Completes those slices of `active` whose result is there but not everywhere, so that those that
/// are left have their inputs. False if a mark is none: the journal is damaged. The reduction goes
/// on as `direct` over what is left.
[[nodiscard]] bool redo_slices(Active& active) noexcept;

/// True if a result overwrites what the reduction reads: it cannot simply be done again.
[[nodiscard]] bool overwrites_inputs(const Active& active) noexcept;

}  // namespace npu::daemon
