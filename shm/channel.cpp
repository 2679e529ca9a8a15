#include "shm/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace npu::shm {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return fail(Code::kInvalidArgument,
                "socket path '{}' has {} bytes, between 1 and {} are possible", path, path.size(),
                sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno("create a socket");
  return fd;
}

void take_fds(msghdr& msg, std::vector<UniqueFd>& fds) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&msg); c != nullptr; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

}  // namespace

bool valid_run_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > 64 || name == "." || name == "..") return false;
  for (const char c : name) {
    const bool ok =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!ok) return false;
  }
  return true;
}

MessageHeader Received::header() const noexcept {
  MessageHeader h;
  std::memcpy(&h, bytes.data(), sizeof(h));
  return h;
}

ReceiveStatus receive(int socket, Received& into) noexcept {
  into.fds.clear();
  into.size = 0;
  iovec iov{into.bytes.data(), into.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  msg.msg_control = control;
  msg.msg_controllen = sizeof(control);
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closed with messages of ours unread resets the connection. That is reported once,
    // before what it had sent us.
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n < 0) return errno == EAGAIN ? ReceiveStatus::kEmpty : ReceiveStatus::kClosed;
  if (n == 0) return ReceiveStatus::kClosed;
  take_fds(msg, into.fds);
  into.size = static_cast<size_t>(n);
  const bool cut = (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (cut || into.size < sizeof(MessageHeader) || into.header().size != into.size) {
    into.fds.clear();
    return ReceiveStatus::kBroken;
  }
  return ReceiveStatus::kMessage;
}

Result<void> send(int socket, const void* message, size_t size, std::span<const int> fds) {
  NPU_CHECK(fds.size() <= kMaxPassedFds);
  iovec iov{const_cast<void*>(message), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)] = {};
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  if (!fds.empty()) {
    msg.msg_control = control;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t n = 0;
  do {
    n = ::sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return {};
  if (errno == EAGAIN || errno == ENOBUFS) {
    return fail(Code::kResourceExhausted, "send a message: the peer does not read its socket");
  }
  return fail(Code::kUnavailable, "send a message: the peer closed its socket");
}

Result<UniqueFd> connect_to(const std::string& path) {
  NPU_TRY(const sockaddr_un address, address_of(path));
  NPU_TRY(UniqueFd fd, new_socket());
  // A full backlog answers EAGAIN at once on a non-blocking socket; a daemon drains it in
  // microseconds.
  const Deadline deadline = Deadline::after(std::chrono::seconds(2));
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN && !deadline.passed()) {
      (void)::poll(nullptr, 0, 2);
      continue;
    }
    const int err = errno;
    Error error = errno_error(err, "connect to the daemon at '" + path + "'");
    if (err != EACCES) error = {Code::kUnavailable, error.message, Exit::kNoDaemon};
    return tl::unexpected(std::move(error));
  }
  return fd;
}

Result<UniqueFd> listen_at(const std::string& path, mode_t mode) {
  NPU_TRY(const sockaddr_un address, address_of(path));
  if (auto probe = connect_to(path)) {
    return fail_exit(Code::kAlreadyExists, Exit::kBusy,
                     "listen at '{}': another daemon answers there", path);
  }
  NPU_TRY(UniqueFd fd, new_socket());
  (void)::unlink(path.c_str());  // nobody answers: left over by a crash
  const mode_t old = ::umask(0777 & ~mode);
  const int rc = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int err = errno;
  ::umask(old);
  if (rc != 0) return fail_errno(err, "bind '" + path + "'");
  if (::listen(fd.get(), 128) != 0) return fail_errno("listen at '" + path + "'");
  return fd;
}

bool wait_readable(int socket, Deadline deadline) noexcept {
  pollfd p{socket, POLLIN, 0};
  for (;;) {
    const auto left = deadline.remaining(std::chrono::seconds(1));
    const int n = ::poll(&p, 1, static_cast<int>(left.count() / 1'000'000 + 1));
    if (n > 0) return true;
    if (deadline.passed()) return false;
  }
}

}  // namespace npu::shm
