#include "daemon/service/inherited.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

/// Empty for a socket that has no name in the file system.
std::string path_of(int socket) {
  sockaddr_un address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  const size_t head = offsetof(sockaddr_un, sun_path);
  if (length <= head || address.sun_path[0] == '\0') return {};
  const size_t room = std::min<size_t>(length - head, sizeof(address.sun_path));
  return {address.sun_path, std::find(address.sun_path, address.sun_path + room, '\0')};
}

Result<void> adopt(Inherited& inherited, UniqueFd fd) {
  if (inherited.listener.socket.valid()) {
    return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                     "start: systemd passed two sockets named '{}', one is expected; keep one "
                     "Listen line in it",
                     kSocketUnit);
  }
  inherited.listener.path = path_of(fd.get());
  if (::sd_is_socket_unix(fd.get(), SOCK_SEQPACKET, 1, nullptr, 0) <= 0 ||
      inherited.listener.path.empty()) {
    return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                     "start: what systemd passed as '{}' is no listening SOCK_SEQPACKET socket with a "
                     "path; use ListenSequentialPacket=/run/npud/npud.sock in it",
                     kSocketUnit);
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail_errno("use the socket that systemd passed");
  }
  inherited.listener.socket = std::move(fd);
  return {};
}

}  // namespace

Result<Inherited> take_inherited() {
  Inherited inherited;
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  if (count < 0) return fail_errno(-count, "take over the descriptors that systemd passed");
  Result<void> outcome;
  for (int i = 0; i < count; ++i) {
    UniqueFd fd(SD_LISTEN_FDS_START + i);
    const std::string name = names[i];
    std::free(names[i]);
    if (!outcome) continue;
    if (name == kSocketUnit) {
      outcome = adopt(inherited, std::move(fd));
    } else {
      inherited.others.push_back({printable(name), std::move(fd)});
    }
  }
  std::free(names);
  if (!outcome) return tl::unexpected(std::move(outcome.error()));
  return inherited;
}

}  // namespace npu::daemon
