// std::atomic as the model checker sees it: every operation is a point where threads may switch,
// and a load may return an older value wherever C++11 allows it. Plain fields that threads hand to
// each other are Tracked: an access that is not ordered after the last write is reported as a data
// race.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>
#include <type_traits>

// relacy/relacy.hpp without its last part, which renames new, free, memory orders and the pthread
// calls. The order matters.
// clang-format off
#include <relacy/base.hpp>
#include <relacy/context.hpp>
#include <relacy/context_base_impl.hpp>
#include <relacy/atomic_fence.hpp>
#include <relacy/atomic.hpp>
#include <relacy/var.hpp>
#include <relacy/thread_local.hpp>
#include <relacy/test_suite.hpp>
#include <relacy/dyn_thread.hpp>
#include <relacy/stdlib/mutex.hpp>
#include <relacy/stdlib/condition_variable.hpp>
#include <relacy/stdlib/semaphore.hpp>
#include <relacy/stdlib/event.hpp>
// clang-format on
#undef $

#include "tests/model/mutants.hpp"

/// True if the bug is switched on; written by mirror.py.
#define MUTANT(name) ::npu::model::mutated(::npu::model::Mutant::name)

namespace npu::model {

/// Written between simulations only.
inline Mutant active_mutant = Mutant::kNone;
[[nodiscard]] inline bool mutated(Mutant mutant) noexcept { return active_mutant == mutant; }

[[nodiscard]] constexpr rl::memory_order to_relacy(std::memory_order order) noexcept {
  switch (order) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_consume:
      return rl::mo_consume;
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    case std::memory_order_seq_cst:
      return rl::mo_seq_cst;
  }
  return rl::mo_seq_cst;
}

[[nodiscard]] inline rl::debug_info to_relacy(const std::source_location& at) noexcept {
  return {at.function_name(), at.file_name(), at.line()};
}

/// Only what the product uses, and never without an order. Value-initialised, as in C++20.
template <typename T>
class Atomic {
  // relacy prints values and adds to them: enumerations, bool and bytes travel as unsigned.
  static constexpr bool kSmall = std::is_enum_v<T> || sizeof(T) < sizeof(uint32_t);
  using Rep = std::conditional_t<kSmall, uint32_t, T>;
  using At = std::source_location;

 public:
  static constexpr bool is_always_lock_free = true;

  Atomic(T value = T{}) noexcept : impl_(static_cast<Rep>(value)) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order, At at = At::current()) const noexcept {
    return static_cast<T>(impl_.load(to_relacy(order), to_relacy(at)));
  }
  void store(T value, std::memory_order order, At at = At::current()) noexcept {
    impl_.store(static_cast<Rep>(value), to_relacy(order), to_relacy(at));
  }
  T exchange(T value, std::memory_order order, At at = At::current()) noexcept {
    return static_cast<T>(impl_.exchange(static_cast<Rep>(value), to_relacy(order), to_relacy(at)));
  }
  T fetch_add(T value, std::memory_order order, At at = At::current()) noexcept {
    return impl_.fetch_add(value, to_relacy(order), to_relacy(at));
  }
  T fetch_sub(T value, std::memory_order order, At at = At::current()) noexcept {
    return impl_.fetch_sub(value, to_relacy(order), to_relacy(at));
  }
  T fetch_or(T value, std::memory_order order, At at = At::current()) noexcept {
    return impl_.fetch_or(value, to_relacy(order), to_relacy(at));
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order,
                               At at = At::current()) noexcept {
    Rep rep = static_cast<Rep>(expected);
    const bool done = impl_.compare_exchange_strong(rep, static_cast<Rep>(value), to_relacy(order),
                                                    to_relacy(at));
    expected = static_cast<T>(rep);
    return done;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order,
                             At at = At::current()) noexcept {
    Rep rep = static_cast<Rep>(expected);
    const bool done =
        impl_.compare_exchange_weak(rep, static_cast<Rep>(value), to_relacy(order), to_relacy(at));
    expected = static_cast<T>(rep);
    return done;
  }

 private:
  rl::atomic<Rep> impl_;
};

/// A plain field. Zero at first, as in a fresh page.
template <typename T>
class Tracked {
  using Rep = std::conditional_t<sizeof(T) < sizeof(uint32_t), uint32_t, T>;  // printed as a number

 public:
  Tracked(T value = T{}) noexcept { *this = value; }
  Tracked(const Tracked& other) noexcept { *this = static_cast<T>(other); }
  Tracked& operator=(const Tracked& other) noexcept { return *this = static_cast<T>(other); }
  Tracked& operator=(T value) noexcept {
    value_(RL_INFO) = static_cast<Rep>(value);
    return *this;
  }
  operator T() const noexcept { return static_cast<T>(value_(RL_INFO).load()); }
  Tracked& operator+=(T value) noexcept { return *this = static_cast<T>(*this) + value; }
  template <typename E>
  requires std::is_enum_v<E>
  explicit operator E() const noexcept { return static_cast<E>(static_cast<T>(*this)); }

 private:
  rl::var<Rep> value_;
};

}  // namespace npu::model
