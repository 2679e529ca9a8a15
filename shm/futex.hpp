// Raw shared futex calls. std::atomic::wait cannot be used: libstdc++ 12 uses process-private
// futexes, which never wake a waiter in another process.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "shm/base/clock.hpp"

namespace npu::shm {

/// No single sleep is longer, so that a waker killed between publish and wake costs at most this.
inline constexpr milliseconds kWaitSlice{100};

/// Sleeps while *word == expected, at most `limit`. Returns on wake, change, signal or time:
/// re-check always.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, nanoseconds limit) noexcept;

/// Wakes up to `count` waiters of any process.
void futex_wake(const std::atomic<uint32_t>& word, int count) noexcept;

/// As futex_wait and futex_wake, but a wake reaches only sleepers whose `bits` meet the waker's, so
/// that groups of sleepers share a word. `bits` is not 0.
void futex_wait_bits(const std::atomic<uint32_t>& word, uint32_t expected, nanoseconds limit,
                     uint32_t bits) noexcept;
void futex_wake_bits(const std::atomic<uint32_t>& word, uint32_t bits) noexcept;

struct FutexWaiter {
  const std::atomic<uint32_t>* word;
  uint32_t expected;
};

/// Sleeps until any word differs from its expectation or is woken (futex_waitv, Linux 5.16), at
/// most 128 words. Returns false if the kernel lacks the call.
bool futex_wait_any(std::span<const FutexWaiter> waiters, nanoseconds limit) noexcept;

}  // namespace npu::shm
