// Descriptors that systemd hands over at the start: the socket of npud.socket, and whatever an earlier daemon
// put into the fd store.
#pragma once

#include <string>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::daemon {

inline constexpr const char* kSocketUnit = "npud.socket";

struct NamedFd {
  std::string name;
  UniqueFd fd;
};

/// A socket that somebody else listens with and keeps when this daemon ends.
struct Listener {
  UniqueFd socket;  // invalid: none, the daemon makes its own
  std::string path;
};

struct Inherited {
  Listener listener;
  std::vector<NamedFd> others;  // closed unless somebody takes them
};

/// Takes over LISTEN_FDS if they are meant for this process, and removes the variables. Call once, before
/// there are threads. Errors: invalid_argument, exit 78, when the descriptor named npud.socket is no listening
/// SOCK_SEQPACKET socket in the file system, or there are two of them.
[[nodiscard]] Result<Inherited> take_inherited();

}  // namespace npu::daemon
