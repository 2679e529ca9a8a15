// How an engine thread shows that it gets on: it counts its rounds and says whether it is in one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "shm/layout_data.hpp"

namespace npu::daemon {

/// A thread that is in the same round for seconds is stuck: a round is some slices long.
/// Thread: beat and rest by the thread that it is about, the rest by any. Cost: two plain stores a round,
/// on a line that is nobody else's.
class alignas(shm::kLineBytes) Pulse {
 public:
  explicit Pulse(std::string_view name) noexcept : name_(name) {}

  void beat() noexcept {
    // One writer: no read-modify-write is needed. relaxed: nothing is ordered by it.
    rounds_.store(rounds_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    works_.store(true, std::memory_order_relaxed);
  }
  /// Before it sleeps.
  void rest() noexcept { works_.store(false, std::memory_order_relaxed); }

  [[nodiscard]] uint64_t rounds() const noexcept { return rounds_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool works() const noexcept { return works_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  std::atomic<uint64_t> rounds_{0};
  std::atomic<bool> works_{false};
  std::string_view name_;
};

}  // namespace npu::daemon
