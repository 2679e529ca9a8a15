#include "client/render/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace npu::client {

void Output::write(std::string_view text) noexcept {
  while (!text.empty() && broken_ == 0) {
    pollfd fds[2] = {{fd_, POLLOUT, 0}, {interrupt_fd_, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      broken_ = errno;
      return;
    }
    if (fds[0].revents == 0) return;  // interrupted, and the reader still does not read
    const ssize_t n = ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      broken_ = errno;
      return;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace npu::client
