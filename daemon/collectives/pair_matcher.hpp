// Pairs sends with receives: first in, first out for each communicator, source and destination.
// Pure bookkeeping over private copies, no allocation after construction.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/collectives/stream_queues.hpp"

namespace npu::daemon {

struct Pair {
  Pending* send = nullptr;
  Pending* recv = nullptr;
  uint64_t start_ns = 0;  // 0: not started
};

/// Thread: one.
class PairMatcher {
 public:
  PairMatcher();

  /// `peer`: the world rank that the submission names. A pair goes to matched().
  void add(Pending& pending, uint32_t peer) noexcept;
  /// Matched pairs that have not been started, oldest first.
  [[nodiscard]] std::vector<Pair>& matched() noexcept { return matched_; }
  [[nodiscard]] const std::vector<Pair>& matched() const noexcept { return matched_; }

  struct Half {
    Pending* pending;
    uint32_t peer;
  };
  /// Submissions of a rank that wait for their peer, oldest first.
  [[nodiscard]] const std::vector<Half>& unmatched(uint32_t rank) const noexcept {
    return unmatched_[rank];
  }
  /// Forgets a half; it was refused.
  void drop(const Pending& pending) noexcept;

 private:
  std::array<std::vector<Half>, shm::kMaxDevices> unmatched_;  // capacity reserved
  std::vector<Pair> matched_;
  std::array<std::array<uint64_t, shm::kMaxDevices>, shm::kMaxDevices> sent_{}, received_{};
};

}  // namespace npu::daemon
