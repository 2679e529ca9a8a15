// Rings of a run's doorbell that brought nothing. The doorbell is memory of the clients: one that
// rings without end would keep the coordinator awake, at the cost of every other run.
#pragma once

#include <cstdint>

namespace npu::daemon {

/// An honest client rings once an operation, and at times too late; the submission that follows
/// starts the count again. Thread: the coordinator.
class KickLimit {
 public:
  static constexpr uint32_t kUselessInARow = 1000;
  static constexpr uint64_t kWindowNs = 1'000'000'000;

  void useless(uint64_t now) noexcept {
    if (now - window_ns_ >= kWindowNs) {
      window_ns_ = now;
      count_ = 0;
    }
    if (++count_ > kUselessInARow) muted_until_ns_ = now + kWindowNs;
  }
  void useful() noexcept {
    count_ = 0;
    muted_until_ns_ = 0;
  }
  /// True while the doorbell is not listened to: the run is served from the wait slice.
  [[nodiscard]] bool muted(uint64_t now) const noexcept { return now < muted_until_ns_; }

 private:
  uint64_t window_ns_ = 0;
  uint64_t muted_until_ns_ = 0;
  uint32_t count_ = 0;
};

}  // namespace npu::daemon
