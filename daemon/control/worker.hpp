// A thread that does slow things (allocate, unmap, write, fsync) in order, so that the control
// server never waits for memory or disk. What it found out is finished on the control server's
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "daemon/collectives/parker.hpp"
#include "shm/base/fd.hpp"

namespace npu::daemon {

/// Thread: post and run_completions by the control server only. The destructor finishes what was
/// posted.
class Worker {
 public:
  /// Runs on the control server's thread, with what the task learned in its captures.
  using Completion = std::function<void()>;
  /// Runs on the worker's thread; must not throw.
  using Task = std::function<Completion()>;

  enum class Priority : uint8_t {
    kDaemon,  // the process's, which goes before the ranks
    kRanks,   // theirs: what it does is long, and nobody waits for it
  };
  [[nodiscard]] static Result<std::unique_ptr<Worker>> start(const std::string& thread_name,
                                                             Priority priority = Priority::kDaemon);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Never refuses and never waits: what the queue does not take waits in a list of this thread's.
  /// Whoever posts for a client bounds how much (limits.hpp).
  void post(Task task);
  /// Readable when completions wait.
  [[nodiscard]] int event_fd() const noexcept { return event_fd_.get(); }
  void run_completions();
  /// Tasks posted whose completion has not run yet.
  [[nodiscard]] uint64_t pending() const noexcept { return pending_; }

 private:
  struct Queues;
  explicit Worker(UniqueFd event_fd);
  void loop();
  void hand_over();

  UniqueFd event_fd_;
  std::unique_ptr<Queues> queues_;
  Parker parker_;
  std::atomic<bool> stop_{false};
  std::deque<std::unique_ptr<Task>> waiting_;  // beyond what the queues hold
  uint64_t pending_ = 0;
  std::thread thread_;
};

}  // namespace npu::daemon
