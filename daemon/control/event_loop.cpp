#include "daemon/control/event_loop.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace npu::daemon {

Result<EventLoop> EventLoop::create() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) return fail_errno("create the event loop");
  return EventLoop(std::move(fd));
}

Result<void> EventLoop::add(int fd, Callback callback) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno("watch a descriptor");
  callbacks_[fd] = std::make_shared<Callback>(std::move(callback));
  return {};
}

void EventLoop::watch(int fd, bool input, bool output) noexcept {
  epoll_event event{};
  event.events = (input ? EPOLLIN : 0u) | (output ? EPOLLOUT : 0u);
  event.data.fd = fd;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::remove(int fd) noexcept {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  callbacks_.erase(fd);
}

void EventLoop::run_once(milliseconds limit) {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                             static_cast<int>(limit.count()));
  for (int i = 0; i < n; ++i) {
    // Looked up each time: an earlier callback of this round may have removed the descriptor.
    const auto found = callbacks_.find(events[static_cast<size_t>(i)].data.fd);
    if (found == callbacks_.end()) continue;
    const std::shared_ptr<Callback> callback = found->second;
    (*callback)(events[static_cast<size_t>(i)].events);
  }
}

}  // namespace npu::daemon
