// Boost.Lockfree's choice of atomics, in place of its own header: the model checker's.
#pragma once

#define BOOST_LOCKFREE_DETAIL_ATOMIC_HPP

#include "tests/model/relacy_atomic.hpp"

namespace boost::lockfree {

template <typename T>
class atomic : public npu::model::Atomic<T> {
 public:
  using npu::model::Atomic<T>::Atomic;
  static bool is_lock_free() noexcept { return true; }
  void store(T value, std::memory_order order,
             std::source_location at = std::source_location::current()) noexcept {
    npu::model::Atomic<T>::store(
        value, MUTANT(kQueueIndexRelaxed) ? std::memory_order_relaxed : order, at);
  }
};

using std::memory_order_acquire;
using std::memory_order_consume;
using std::memory_order_relaxed;
using std::memory_order_release;

namespace detail {
using lockfree::atomic;
}

}  // namespace boost::lockfree
