// shm/futex.hpp under the checker. One a program, like the file whose place it takes.
#pragma once

#include "shm/futex.hpp"
#include "tests/model/relacy_suite.hpp"

namespace npu::shm {

inline void futex_wait_bits(const model::Atomic<uint32_t>& word, uint32_t expected, nanoseconds,
                            uint32_t bits) noexcept {
  model::futexes->begin(bits);
  if (model::futexes->queue(&word, expected)) model::futexes->sleep();
}

inline void futex_wait(const model::Atomic<uint32_t>& word, uint32_t expected,
                       nanoseconds limit) noexcept {
  futex_wait_bits(word, expected, limit, model::Futexes::kAllBits);
}

inline void futex_wake(const model::Atomic<uint32_t>& word, int count) noexcept {
  model::futexes->wake(&word, static_cast<uint32_t>(count), model::Futexes::kAllBits);
}

inline void futex_wake_bits(const model::Atomic<uint32_t>& word, uint32_t bits) noexcept {
  model::futexes->wake(&word, UINT32_MAX, bits);
}

/// The kernel queues on one word after the other; a wake in between ends the call.
inline bool futex_wait_any(std::span<const FutexWaiter> waiters, nanoseconds) noexcept {
  model::futexes->begin(model::Futexes::kAllBits);
  for (const FutexWaiter& waiter : waiters) {
    if (!model::futexes->queue(waiter.word, waiter.expected)) return true;
  }
  model::futexes->sleep();
  return true;
}

}  // namespace npu::shm

// relacy replaces the unsized forms only, and the library's sized ones may not end there.
void operator delete(void* p, size_t) noexcept { operator delete(p); }
void operator delete[](void* p, size_t) noexcept { operator delete[](p); }
