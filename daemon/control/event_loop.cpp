#include "daemon/control/event_loop.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

namespace npu::daemon {
namespace {

/// What epoll reports back: which watch it was, not only which number the descriptor had.
uint64_t tag(int fd, uint32_t watch) noexcept {
  return uint64_t{watch} << 32 | static_cast<uint32_t>(fd);
}

}  // namespace

Result<EventLoop> EventLoop::create() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) return fail_errno("create the event loop");
  return EventLoop(std::move(fd));
}

Result<void> EventLoop::add(int fd, Callback callback) {
  const uint32_t watch = next_watch_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag(fd, watch);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno("watch a descriptor");
  watches_[fd] = {watch, std::make_shared<Callback>(std::move(callback))};
  return {};
}

void EventLoop::watch(int fd, bool input, bool output) noexcept {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  epoll_event event{};
  event.events = (input ? EPOLLIN : 0u) | (output ? EPOLLOUT : 0u);
  event.data.u64 = tag(fd, found->second.id);
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::remove(int fd) noexcept {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(fd);
}

void EventLoop::run_once(milliseconds limit) {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                             static_cast<int>(limit.count()));
  for (int i = 0; i < n; ++i) {
    const uint64_t reported = events[static_cast<size_t>(i)].data.u64;
    // Looked up each time: an earlier callback of this round may have removed the descriptor, and
    // a new one may have its number by now. That one must not get the old one's hang-up.
    const auto found = watches_.find(static_cast<int>(static_cast<uint32_t>(reported)));
    if (found == watches_.end() || found->second.id != reported >> 32) continue;
    const std::shared_ptr<Callback> callback = found->second.callback;
    (*callback)(events[static_cast<size_t>(i)].events);
  }
}

}  // namespace npu::daemon
