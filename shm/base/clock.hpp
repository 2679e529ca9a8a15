// Monotonic time: deadlines are absolute points on the steady clock, so waits compose and a clock
// step of the realtime clock has no effect.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace npu {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC on Linux
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Nanoseconds on CLOCK_MONOTONIC, comparable between processes of one host.
[[nodiscard]] inline uint64_t now_ns() noexcept {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch()).count());
}

/// An end-to-end time limit. A limit of zero means "never", as HCCL_EXEC_TIMEOUT=0 does.
class Deadline {
 public:
  [[nodiscard]] static Deadline never() noexcept { return Deadline(Clock::time_point::max()); }
  [[nodiscard]] static Deadline after(nanoseconds limit) noexcept {
    return limit.count() <= 0 ? never() : Deadline(Clock::now() + limit);
  }
  [[nodiscard]] bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool passed() const noexcept { return !is_never() && Clock::now() >= at_; }
  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }

  /// Time left, clamped to [0, slice]: what one bounded wait may use.
  [[nodiscard]] nanoseconds remaining(nanoseconds slice) const noexcept {
    if (is_never()) return slice;
    return std::clamp(std::chrono::duration_cast<nanoseconds>(at_ - Clock::now()), nanoseconds(0),
                      slice);
  }

 private:
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  Clock::time_point at_;
};

}  // namespace npu
