// One epoll loop: descriptors with a callback each. Everything in the control server runs on its
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"

namespace npu::daemon {

/// Thread: one. Callbacks may add and remove descriptors, their own included.
class EventLoop {
 public:
  using Callback = std::function<void(uint32_t epoll_events)>;

  [[nodiscard]] static Result<EventLoop> create();

  /// Watches `fd` (not owned) for input. A hang-up is always reported.
  [[nodiscard]] Result<void> add(int fd, Callback callback);
  /// What to wake up for from now on.
  void watch(int fd, bool input, bool output) noexcept;
  /// Before `fd` is closed. What it reported in this round is not delivered any more, not even to
  /// a descriptor that is added with the same number.
  void remove(int fd) noexcept;

  /// Waits at most `limit` and runs what is ready.
  void run_once(milliseconds limit);

 private:
  struct Watch {
    uint32_t id = 0;  ///< one per add(): numbers of descriptors come back
    // shared_ptr: a callback that removes itself stays alive until it returns.
    std::shared_ptr<Callback> callback;
  };

  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
  std::map<int, Watch> watches_;
  uint32_t next_watch_ = 0;
};

}  // namespace npu::daemon
