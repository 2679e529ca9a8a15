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
  void remove(int fd) noexcept;

  /// Waits at most `limit` and runs what is ready.
  void run_once(milliseconds limit);

 private:
  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
  // shared_ptr: a callback that removes itself stays alive until it returns.
  std::map<int, std::shared_ptr<Callback>> callbacks_;
};

}  // namespace npu::daemon
