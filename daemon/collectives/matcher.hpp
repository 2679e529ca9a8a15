// Pairs the submissions of all members of a communicator by their order and says what does not
// agree. Pure bookkeeping over private copies: no shared memory, no waiting, no allocation after
// construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/collectives/stream_queues.hpp"
#include "shm/layout_data.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::daemon {

/// One collective while members gather.
struct Gathering {
  uint32_t arrived_mask = 0;  // by member
  uint64_t first_ns = 0;
  uint64_t last_ns = 0;
  uint64_t start_ns = 0;
  uint64_t trace = 0;   // its record in the flight recorder
  bool warned = false;  // its long wait was reported
  uint32_t mark = 0;    // scratch of the search for cyclic waits
  std::array<Pending*, shm::kMaxDevices> by_member{};

  [[nodiscard]] const Pending& of_first() const noexcept {
    return *by_member[static_cast<size_t>(__builtin_ctz(arrived_mask))];
  }
};

/// A field in which members differ.
struct Mismatch {
  const char* field;
  uint32_t member_a, member_b;  // the lowest, and the first that differs from it
};

/// The first field in which two submissions of one operation differ, or null.
[[nodiscard]] const char* differing_field(const Pending& a, const Pending& b) noexcept;

/// Thread: one.
class Matcher {
 public:
  explicit Matcher(uint32_t size);

  /// Gives the submission the member's next sequence number. Null if the member is a whole window
  /// ahead of the slowest: it broke the protocol. A faulty submission still takes its place, so
  /// that every rank gets the error and the next operation works.
  [[nodiscard]] Gathering* add(uint32_t member, Pending& pending, uint64_t now) noexcept;

  /// The oldest collective that is not done; its mask may be empty.
  [[nodiscard]] Gathering& head() noexcept { return slots_[next_ % shm::kQueueDepth]; }
  [[nodiscard]] const Gathering& head() const noexcept { return slots_[next_ % shm::kQueueDepth]; }
  [[nodiscard]] uint64_t head_sequence() const noexcept { return next_; }
  [[nodiscard]] bool head_complete() const noexcept { return head().arrived_mask == full_mask_; }
  [[nodiscard]] bool is_head(const Gathering& gathering) const noexcept {
    return &gathering == &head();
  }
  [[nodiscard]] Gathering& of(uint64_t sequence) noexcept {
    return slots_[sequence % shm::kQueueDepth];
  }
  [[nodiscard]] uint32_t full_mask() const noexcept { return full_mask_; }
  /// Only for a complete head.
  [[nodiscard]] std::optional<Mismatch> mismatch() const noexcept;
  /// The lowest member of a complete head whose submission is faulty.
  [[nodiscard]] std::optional<uint32_t> faulty_member() const noexcept;
  void pop(uint64_t now) noexcept;
  /// When the previous head was done; 0 if there was none.
  [[nodiscard]] uint64_t last_pop_ns() const noexcept { return last_pop_ns_; }

  /// Before the first add(): the operations before `sequence` are done, in an earlier daemon.
  void start_at(uint64_t sequence) noexcept {
    next_ = sequence;
    submitted_.fill(sequence);
  }

  /// Sequence of the member's newest submission; empty if it never submitted.
  [[nodiscard]] std::optional<uint64_t> last_of(uint32_t member) const noexcept;
  /// Shifts the start of every wait by a time in which the daemon itself did not run.
  void forgive(uint64_t pause_ns) noexcept;

 private:
  uint32_t size_;
  uint32_t full_mask_;
  uint64_t next_ = 0;
  uint64_t last_pop_ns_ = 0;
  std::array<uint64_t, shm::kMaxDevices> submitted_{};
  std::unique_ptr<Gathering[]> slots_;
};

}  // namespace npu::daemon
