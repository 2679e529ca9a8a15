// A thread's own bed: sleeps on one word, is woken by whoever gave it work. Used between threads of
// the daemon; a shared futex is used as everywhere, so one kind of wait exists.
#pragma once

#include <atomic>
#include <cstdint>

#include "shm/futex.hpp"
#include "shm/layout_data.hpp"

namespace npu::daemon {

/// Protocol: the sleeper calls prepare(), re-checks its inputs, then sleep() or cancel(); a waker
/// publishes work, then calls notify(). prepare stores the flag and then reads the word, notify
/// bumps the word and then reads the flag, all seq_cst: one of the two always sees the other, so no
/// wake is lost.
class Parker {
 public:
  [[nodiscard]] uint32_t prepare() noexcept {
    asleep_.store(1, std::memory_order_seq_cst);
    return word_.load(std::memory_order_seq_cst);
  }
  void cancel() noexcept { asleep_.store(0, std::memory_order_relaxed); }
  void sleep(uint32_t ticket, nanoseconds limit) noexcept {
    shm::futex_wait(word_, ticket, limit);
    cancel();
  }
  void notify() noexcept {
    word_.fetch_add(1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) != 0) shm::futex_wake(word_, 1);
  }
  [[nodiscard]] const std::atomic<uint32_t>& word() const noexcept { return word_; }

 private:
  alignas(shm::kLineBytes) std::atomic<uint32_t> word_{0};
  alignas(shm::kLineBytes) std::atomic<uint32_t> asleep_{0};
};

}  // namespace npu::daemon
