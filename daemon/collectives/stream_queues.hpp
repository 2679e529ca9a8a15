// What the ranks of a run have submitted and the engine has not answered yet, in the order of each
// rank's streams. Private copies: no shared memory, no allocation after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "shm/layout_data.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::daemon {

/// One submission from its arrival to its completion.
struct Pending {
  shm::Submission s;
  shm::VectorArgs vectors;  // if the operation has any
  shm::Fault fault = shm::Fault::kNone;
  uint32_t rank = 0;      // in the world
  uint64_t sequence = 0;  // of its communicator, or of its pair of ranks
  uint64_t arrived_ns = 0;
  uint64_t trace = 0;  // its record in the flight recorder
  bool in_use = false;
  // Stream links: indices into the rank's table, kNone at the ends. Entries of one batch start
  // together.
  uint16_t previous = 0, next = 0;
  uint32_t batch = 0;
  uint32_t mark = 0;  // scratch of the search for cyclic waits
};

/// Invariants: (1) an entry is in exactly one stream from add() to remove(); (2) only entries of
/// the first batch of a stream may start. Thread: one.
class StreamQueues {
 public:
  explicit StreamQueues(uint32_t world);

  /// The table entry of the ticket, to be filled; null if it still holds an unanswered submission,
  /// which only a rank that does not keep to the protocol brings about.
  [[nodiscard]] Pending* claim(uint32_t rank, uint64_t ticket) noexcept;
  /// Puts a filled entry at the end of its stream. Its stream index must be in range.
  void add(Pending& pending) noexcept;
  void remove(Pending& pending, uint64_t now) noexcept;

  /// True if nothing that its rank put into the same stream before it is left.
  [[nodiscard]] bool first(const Pending& pending) const noexcept;
  /// The oldest entry of its stream.
  [[nodiscard]] Pending& front(const Pending& pending) noexcept;
  /// The next entry of the same batch, or null.
  [[nodiscard]] Pending* next_of_batch(const Pending& pending) noexcept;
  /// When an entry of its stream was last removed; 0 if never.
  [[nodiscard]] uint64_t last_removed_ns(const Pending& pending) const noexcept;
  /// Unanswered submissions of a rank.
  [[nodiscard]] uint32_t size(uint32_t rank) const noexcept { return ranks_[rank].size; }
  /// Calls f(Pending&) for every unanswered submission of the rank.
  template <typename F>
  void for_each(uint32_t rank, F&& f) {
    if (ranks_[rank].size == 0) return;
    for (uint32_t i = 0; i < shm::kQueueDepth; ++i) {
      if (ranks_[rank].entries[i].in_use) f(ranks_[rank].entries[i]);
    }
  }

 private:
  static constexpr uint16_t kNone = UINT16_MAX;
  struct Stream {
    uint16_t head = kNone, tail = kNone;
    uint64_t removed_ns = 0;
  };
  struct Rank {
    std::unique_ptr<Pending[]> entries;
    std::array<Stream, shm::kMaxStreams> streams;
    uint32_t size = 0;
    uint32_t batch = 0;
  };
  std::array<Rank, shm::kMaxDevices> ranks_;
};

}  // namespace npu::daemon
