#include "shm/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

namespace npu::shm {
namespace {

#ifndef SYS_futex_waitv
constexpr long kSysFutexWaitv = 449;  // one number on every architecture
#else
constexpr long kSysFutexWaitv = SYS_futex_waitv;
#endif

timespec to_timespec(nanoseconds ns) noexcept {
  return {static_cast<time_t>(ns.count() / 1'000'000'000),
          static_cast<long>(ns.count() % 1'000'000'000)};
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, nanoseconds limit) noexcept {
  if (limit.count() <= 0) return;
  const timespec ts = to_timespec(limit);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &ts, nullptr, 0);
}

void futex_wake(const std::atomic<uint32_t>& word, int count) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

void futex_wait_bits(const std::atomic<uint32_t>& word, uint32_t expected, nanoseconds limit,
                     uint32_t bits) noexcept {
  if (limit.count() <= 0) return;
  // This form takes an absolute time of the monotonic clock.
  const timespec at = to_timespec(Clock::now().time_since_epoch() + limit);
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &at, nullptr, bits);
}

void futex_wake_bits(const std::atomic<uint32_t>& word, uint32_t bits) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits);
}

bool futex_wait_any(std::span<const FutexWaiter> waiters, nanoseconds limit) noexcept {
  std::array<futex_waitv, 128> raw{};
  const size_t n = waiters.size() < raw.size() ? waiters.size() : raw.size();
  for (size_t i = 0; i < n; ++i) {
    raw[i].val = waiters[i].expected;
    raw[i].uaddr = reinterpret_cast<uintptr_t>(waiters[i].word);
    raw[i].flags = FUTEX_32;
  }
  // futex_waitv takes an absolute time.
  const timespec at = to_timespec(Clock::now().time_since_epoch() + limit);
  const long r = ::syscall(kSysFutexWaitv, raw.data(), n, 0, &at, CLOCK_MONOTONIC);
  return !(r < 0 && errno == ENOSYS);
}

}  // namespace npu::shm
