// Pairs the submissions of all ranks of a communicator by sequence number and says what does not
// agree. Pure bookkeeping over private copies: no shared memory, no waiting, no allocation after
// construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shm/layout_data.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::daemon {

/// One collective while ranks gather.
struct Gathering {
  uint32_t arrived_mask = 0;
  uint64_t first_ns = 0;
  uint64_t last_ns = 0;
  std::array<shm::Submission, shm::kMaxDevices> by_rank;
  std::array<shm::Fault, shm::kMaxDevices> faults;

  [[nodiscard]] const shm::Submission& of_first() const noexcept {
    return by_rank[static_cast<size_t>(__builtin_ctz(arrived_mask))];
  }
};

/// A field in which ranks differ.
struct Mismatch {
  const char* field;
  uint32_t rank_a, rank_b;  // the lowest rank, and the first that differs from it
};

/// Thread: one.
class Matcher {
 public:
  explicit Matcher(uint32_t world);

  /// False if the sequence is out of the window or the rank came twice: the rank broke the
  /// protocol. A faulty submission still takes its place, so that every rank gets the error and the
  /// next operation works.
  [[nodiscard]] bool add(uint32_t rank, const shm::Submission& submission, shm::Fault fault,
                         uint64_t now) noexcept;

  /// The oldest collective that is not done; its mask may be empty.
  [[nodiscard]] Gathering& head() noexcept { return slot(next_); }
  [[nodiscard]] const Gathering& head() const noexcept { return slots_[next_ % shm::kQueueDepth]; }
  [[nodiscard]] uint64_t head_sequence() const noexcept { return next_; }
  [[nodiscard]] bool head_complete() const noexcept { return head().arrived_mask == full_mask_; }
  /// Only for a complete head.
  [[nodiscard]] std::optional<Mismatch> mismatch() const noexcept;
  /// The lowest rank of a complete head whose submission is faulty.
  [[nodiscard]] std::optional<uint32_t> faulty_rank() const noexcept;
  void pop() noexcept;

  /// Sequence of the rank's newest submission; empty if it never submitted.
  [[nodiscard]] std::optional<uint64_t> last_of(uint32_t rank) const noexcept;
  /// Shifts the start of every wait by a time in which the daemon itself did not run.
  void forgive(uint64_t pause_ns) noexcept;

 private:
  [[nodiscard]] Gathering& slot(uint64_t sequence) noexcept {
    return slots_[sequence % shm::kQueueDepth];
  }

  uint32_t full_mask_;
  uint64_t next_ = 0;
  std::array<uint64_t, shm::kMaxDevices> last_plus_one_{};
  std::unique_ptr<Gathering[]> slots_;
};

/// "all-reduce seq 12 (fp32, sum, 65536 elements)".
[[nodiscard]] std::string describe(const shm::Submission& submission);

/// "0-2,4" for the set bits.
[[nodiscard]] std::string rank_list(uint32_t mask);

}  // namespace npu::daemon
