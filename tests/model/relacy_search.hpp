// How interleavings are chosen. Every second one is uniformly random; the others are PCT
// (Burckhardt et al., ASPLOS 2010): threads have random priorities, the first runs until it sleeps,
// and at a few random steps the running one becomes the last. That finds what needs one thread to
// stand still while others do a lot.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tests/model/relacy_atomic.hpp"

namespace npu::model {

/// SplitMix64: relacy's own generator repeats itself too soon.
class Dice {
 public:
  void seed(uint64_t value) noexcept { state_ = value; }
  [[nodiscard]] unsigned roll(unsigned sides) noexcept {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<unsigned>((z ^ (z >> 31)) % sides);
  }

 private:
  uint64_t state_ = 0;
};

/// A scheduler in relacy's sense. An interleaving depends on its number only, so it can be repeated
/// alone.
template <rl::thread_id_t kThreads>
class Search : public rl::scheduler<Search<kThreads>, rl::scheduler_thread_info, kThreads> {
  using Base = rl::scheduler<Search<kThreads>, rl::scheduler_thread_info, kThreads>;

 public:
  using shared_context_t = typename Base::shared_context_t;
  using thread_info_t = typename Base::thread_info_t;
  struct task_t {};

  Search(rl::test_params& params, shared_context_t& context, rl::thread_id_t dynamic_threads)
      : Base(params, context, dynamic_threads) {}

  rl::thread_id_t iteration_begin_impl() {
    dice_.seed(this->iter_);
    by_priority_ = this->iter_ % 2 == 1;
    step_ = 0;
    lowest_ = 0;
    for (unsigned t = 0; t < kThreads; ++t) priority_[t] = static_cast<int>(t) + 1;
    for (unsigned t = kThreads; t > 1; --t) std::swap(priority_[t - 1], priority_[dice_.roll(t)]);
    // Short and long interleavings get their changes where they have steps.
    const unsigned length = 32u << dice_.roll(6);
    for (unsigned& change : changes_) change = dice_.roll(length);
    return pick();
  }
  bool iteration_end_impl() { return this->iter_ == this->params_.iteration_count; }

  rl::thread_id_t schedule_impl(rl::unpark_reason& reason, unsigned yield) {
    ++step_;
    const bool change = std::find(changes_.begin(), changes_.end(), step_) != changes_.end();
    if (yield != 0 || change) priority_[this->thread_->index_] = --lowest_;
    reason = rl::unpark_reason_normal;
    // Only while somebody runs: a sleep that ends for no reason must not hide a deadlock.
    if (this->spurious_thread_count_ != 0 && this->running_threads_count != 0 &&
        dice_.roll(16) == 0) {
      const auto some = dice_.roll(static_cast<unsigned>(this->spurious_thread_count_));
      const rl::thread_id_t thread = this->spurious_threads_[some]->index_;
      this->unpark_thread(thread);
      reason = rl::unpark_reason_spurious;
      return thread;
    }
    return pick();
  }

  unsigned rand_impl(unsigned limit, rl::sched_type) { return dice_.roll(limit); }
  rl::iteration_t iteration_count_impl() { return this->params_.iteration_count; }
  void get_state_impl(std::ostream&) {}
  void set_state_impl(std::istream&) {}
  void on_thread_block(rl::thread_id_t, bool) {}

 private:
  rl::thread_id_t pick() {
    const auto& threads = this->running_threads;
    if (!by_priority_) return threads[dice_.roll(static_cast<unsigned>(threads.size()))];
    return *std::max_element(threads.begin(), threads.end(), [&](auto a, auto b) {
      return priority_[static_cast<size_t>(a)] < priority_[static_cast<size_t>(b)];
    });
  }

  Dice dice_;
  bool by_priority_ = false;
  unsigned step_ = 0;
  int lowest_ = 0;
  std::array<int, kThreads> priority_{};
  std::array<unsigned, 3> changes_{};
};

}  // namespace npu::model
