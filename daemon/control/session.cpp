#include "daemon/control/session.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace npu::daemon {

Result<Peer> identify_peer(int socket) {
  ucred cred{};
  socklen_t length = sizeof(cred);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &length) != 0) {
    return fail_errno("identify a client");
  }
  Peer peer;
  peer.pid = cred.pid;
  peer.uid = cred.uid;
  peer.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, cred.pid, 0)));
  if (!peer.pidfd.valid()) {
    // ESRCH, or EINVAL in a race inside the kernel: the process is gone.
    if (errno == ESRCH || errno == EINVAL) return fail(Code::kUnavailable, "the client is gone");
    return fail_errno("watch a client");
  }
  return peer;
}

}  // namespace npu::daemon
