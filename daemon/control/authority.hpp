// Who may do what: decided by what the kernel says of a peer, never by what a message says.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "shm/base/error.hpp"

namespace npu::daemon {

enum class Action : uint8_t {
  kAttach,      // hold devices and wait for them, read and write checkpoints: for oneself only
  kReadStatus,  // see a run, its trace, and who holds a device
  kEndRun,      // end somebody's run, or what waits for devices
  kAdminister,  // drain the daemon
};

/// A peer as far as its rights go.
struct Rights {
  int64_t uid = -1;
  bool admin = false;
};

/// `owner`: whose run or store it is about.
[[nodiscard]] bool allowed(const Rights& who, Action action, int64_t owner) noexcept;

/// Root, the user that the daemon runs as (who can do anything to it anyway), and the members of
/// the administrators' group. `groups`: all of the peer's, as it had them when it connected.
[[nodiscard]] bool is_admin(int64_t uid, std::span<const gid_t> groups,
                            std::optional<gid_t> admin_group) noexcept;

/// Nothing for an empty name. Errors: not_found, exit 78.
[[nodiscard]] Result<std::optional<gid_t>> find_group(const std::string& name);

}  // namespace npu::daemon
