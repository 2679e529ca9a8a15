#include "daemon/control/session.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace npu::daemon {
namespace {

#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;  // since Linux 6.5
#endif

/// Of the process that connected. An older kernel has only its number, which another process may
/// have by now.
UniqueFd open_pidfd(int socket, pid_t pid) noexcept {
  int fd = -1;
  socklen_t length = sizeof(fd);
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &fd, &length) == 0) return UniqueFd(fd);
  if (errno != ENOPROTOOPT) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// Primary and supplementary, as of its connect().
std::vector<gid_t> peer_groups(int socket, gid_t primary) {
  std::vector<gid_t> groups(32);
  auto length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int result = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length);
  if (result != 0 && errno == ERANGE) {
    groups.resize(length / sizeof(gid_t));
    result = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length);
  }
  groups.resize(result == 0 ? length / sizeof(gid_t) : 0);
  groups.push_back(primary);
  return groups;
}

}  // namespace

Result<Peer> identify_peer(int socket, std::optional<gid_t> admin_group) {
  ucred cred{};
  socklen_t length = sizeof(cred);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &length) != 0) {
    return fail_errno("identify a client");
  }
  Peer peer;
  peer.pid = cred.pid;
  peer.uid = cred.uid;
  peer.admin = is_admin(peer.uid, peer_groups(socket, cred.gid), admin_group);
  peer.pidfd = open_pidfd(socket, cred.pid);
  if (!peer.pidfd.valid()) {
    // ESRCH, or EINVAL in a race inside the kernel: the process is gone.
    if (errno == ESRCH || errno == EINVAL) return fail(Code::kUnavailable, "the client is gone");
    return fail_errno("watch a client");
  }
  return peer;
}

}  // namespace npu::daemon
