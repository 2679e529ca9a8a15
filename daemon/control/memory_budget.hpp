// How much memory the daemon can still take before somebody is killed for it: what the host says is
// available, or what is left in the daemon's control group, whichever is less. Asked before anything
// is allocated, because an allocation that goes too far does not fail: the kernel ends a process.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/error.hpp"

namespace npu::daemon {

/// A place that memory comes from, and its state.
struct MemoryRoom {
  uint64_t limit_bytes = UINT64_MAX;
  uint64_t used_bytes = 0;
  std::string where = "no limit is known";  // "the host has", "control group '/a' has"

  [[nodiscard]] uint64_t left_bytes() const noexcept {
    return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
  }
};

/// Kept for page tables, buffers and everybody else.
inline constexpr uint64_t kMemoryReserveBytes = uint64_t{64} << 20;

/// Thread: any. Cost: a handful of small files below /proc and /sys, which never wait for a disk.
class MemoryBudget {
 public:
  /// `root`: put before /proc and /sys, for tests.
  explicit MemoryBudget(std::string root = {}) : root_(std::move(root)) {}

  /// The tightest room of all. Reclaimable file pages count as free.
  [[nodiscard]] MemoryRoom tightest() const;

  /// `promised`: bytes that others were granted and that are not allocated yet.
  /// Errors: resource_exhausted with wanted, used and limit.
  [[nodiscard]] Result<void> check(uint64_t wanted_bytes, uint64_t promised_bytes) const;

 private:
  std::string root_;
};

}  // namespace npu::daemon
