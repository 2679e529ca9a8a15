// What a model test needs beside atomics: futexes and threads under the checker, and the call that
// explores. Waits have no time limit here, so a lost wake is a deadlock instead of a delay of one
// wait slice.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include "tests/model/relacy_atomic.hpp"
#include "tests/model/relacy_search.hpp"

namespace npu::model {

/// A poll found nothing: others go first.
inline void pause() { rl::ctx().yield(1, RL_INFO); }

/// The kernel's side of futexes. A word's bucket lock orders a wake before every later wait on it,
/// compare and queueing are one step, a wake reaches queued threads whose bits meet; a sleep may
/// end for no reason.
class Futexes {
 public:
  static constexpr uint32_t kAllBits = UINT32_MAX;
  using Word = const Atomic<uint32_t>*;

  void begin(uint32_t bits) noexcept { me() = {.bits = bits}; }

  /// Queues the current thread; false if the word differs, and then it is queued nowhere any more.
  bool queue(Word word, uint32_t expected) noexcept {
    Sleeper& sleeper = me();
    rl::ctx().sched();
    const rl::preemption_disabler one_step(rl::ctx());
    lock(word);
    if (sleeper.woken) return false;
    if (word->load(std::memory_order_seq_cst) != expected) {
      sleeper.words = 0;
      return false;
    }
    sleeper.word[sleeper.words++] = word;
    return true;
  }

  void sleep() noexcept {
    Sleeper& sleeper = me();
    if (sleeper.woken) return;
    const bool may_wake_early = rl::rand(8) == 0;
    sleeper.parked = true;
    rl::ctx().park_current_thread(false, may_wake_early, false, RL_INFO);
    sleeper.parked = false;
    sleeper.words = 0;
  }

  void wake(Word word, uint32_t count, uint32_t bits) noexcept {
    rl::ctx().sched();
    const rl::preemption_disabler one_step(rl::ctx());
    lock(word);
    // Any of the sleepers may be the one that is found first.
    const auto start = static_cast<size_t>(rl::rand(static_cast<unsigned>(sleepers_.size())));
    for (size_t i = 0; i < sleepers_.size() && count > 0; ++i) {
      const size_t thread = (start + i) % sleepers_.size();
      Sleeper& sleeper = sleepers_[thread];
      const auto end = sleeper.word.begin() + sleeper.words;
      if ((sleeper.bits & bits) == 0 || std::find(sleeper.word.begin(), end, word) == end) continue;
      sleeper.words = 0;
      sleeper.woken = true;
      --count;
      if (sleeper.parked) {
        rl::ctx().unpark_thread(static_cast<rl::thread_id_t>(thread), false, RL_INFO);
      }
    }
  }

 private:
  struct Sleeper {
    uint32_t bits = 0;
    size_t words = 0;  // 0: not queued
    std::array<Word, 4> word{};
    bool woken = false, parked = false;
  };
  struct Bucket {
    Word word = nullptr;
    Atomic<uint32_t> lock;
  };

  Sleeper& me() noexcept { return sleepers_[rl::thread_index()]; }
  void lock(Word word) noexcept {
    const auto bucket = std::find_if(buckets_.begin(), buckets_.end(), [&](const Bucket& b) {
      return b.word == word || b.word == nullptr;
    });
    RL_ASSERT(bucket != buckets_.end());
    bucket->word = word;
    bucket->lock.fetch_add(1, std::memory_order_acq_rel);
  }

  std::array<Sleeper, 8> sleepers_;
  std::array<Bucket, 16> buckets_;
};

/// Of the simulation in progress.
inline Futexes* futexes = nullptr;

/// std::thread of the mirrored sources: the body is run by a thread of the suite, started before
/// any of them.
class Thread {
 public:
  Thread() noexcept = default;
  template <typename Body>
  explicit Thread(Body body);
  Thread(Thread&& other) noexcept : index_(std::exchange(other.index_, kNone)) {}
  Thread& operator=(Thread&& other) noexcept {
    index_ = std::exchange(other.index_, kNone);
    return *this;
  }
  void join() noexcept;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  size_t index_ = kNone;
};

/// Bodies of the Threads of a simulation.
struct Threads {
  struct One {
    std::function<void()> body;
    Atomic<uint32_t> over;
  };
  std::array<One, 4> list;
  size_t count = 0;

  void run(size_t index) {
    list[index].body();
    list[index].over.store(1, std::memory_order_release);
    futexes->wake(&list[index].over, UINT32_MAX, Futexes::kAllBits);
  }
};
inline Threads* threads = nullptr;

template <typename Body>
Thread::Thread(Body body) : index_(threads->count++) {
  threads->list[index_].body = std::move(body);
}

inline void Thread::join() noexcept {
  const Atomic<uint32_t>& over = threads->list[index_].over;
  while (over.load(std::memory_order_acquire) == 0) {
    futexes->begin(Futexes::kAllBits);
    if (futexes->queue(&over, 0)) futexes->sleep();
  }
}

/// Base of a simulation of `kThreads` threads. `Derived` has void thread(unsigned); its members are
/// made anew for each interleaving.
template <typename Derived, int kThreads>
struct Suite : rl::test_suite<Derived, kThreads> {
  Suite() noexcept {
    futexes = &own_futexes;
    threads = &own_threads;
  }
  Futexes own_futexes;
  Threads own_threads;
};

struct Options {
  uint64_t interleavings = 20'000;  // times NPU_MODEL_FACTOR
  unsigned steps = 4'000;           // an interleaving that takes more does not end
  Mutant mutant = Mutant::kNone;
};

struct Verdict {
  rl::test_result_e result = rl::test_result_success;
  uint64_t explored = 0;
  std::string text;  // the interleaving that fails
};

/// What a reader of the failure wants: the steps of all threads in order, without construction and
/// plain fields.
[[nodiscard]] inline std::string readable(const std::string& history) {
  std::istringstream lines(history);
  std::string line, text;
  bool started = false;
  while (std::getline(lines, line) && line != "thread 0:") {
    started = started || line.find("[BEFORE END]") != std::string::npos;
    const bool plain = line.find("relacy_atomic.hpp") != std::string::npos;
    const bool begin = text.size() < 200;
    if ((started || begin) && !plain) text += line + "\n";
  }
  return text;
}

[[nodiscard]] inline uint64_t factor() noexcept {
  const char* text = std::getenv("NPU_MODEL_FACTOR");
  const uint64_t value = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  return std::max<uint64_t>(value, 1);
}

/// Explores interleavings until one fails; that one is played again for its history.
template <typename SuiteType>
[[nodiscard]] Verdict explore(const Options& options) {
  using Scheduler = Search<SuiteType::params::thread_count>;
  active_mutant = options.mutant;
  // Their buffers are not in the memory that relacy watches.
  rl::ostringstream out, state, progress;
  rl::test_params params;
  params.iteration_count = options.interleavings * factor();
  params.execution_depth_limit = options.steps;
  params.output_stream = &out;
  params.progress_stream = &progress;
  Verdict verdict;
  verdict.result = rl::run_test<SuiteType, Scheduler>(params, state, false);
  if (verdict.result != rl::test_result_success) {
    params.initial_state = state.str();
    params.collect_history = true;
    (void)rl::run_test<SuiteType, Scheduler>(params, state, true);
    verdict.text = readable(out.str().c_str());
  }
  verdict.explored = params.stop_iteration;
  active_mutant = Mutant::kNone;
  return verdict;
}

}  // namespace npu::model
