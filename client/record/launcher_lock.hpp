// Who runs a run: a lock in its folder that a launcher holds as long as it lives. The kernel says
// who holds it and drops it however the launcher ends, so neither a stale file nor a reused pid is
// ever believed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {

/// Keeps the lock until it is destroyed; a process that was forked does not hold it. The file
/// stays.
class LauncherLock {
 public:
  /// Takes the lock of the run in `folder`, which must exist. Errors: unavailable, exit 75, naming
  /// the pid of the other launcher; as open and fcntl say.
  [[nodiscard]] static Result<LauncherLock> take(const std::string& folder);

 private:
  explicit LauncherLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// The launcher that holds the lock of the run in `folder`, nothing when none does. Errors:
/// failed_precondition when it runs on another host or in another container; as open and fcntl say.
[[nodiscard]] Result<std::optional<pid_t>> launcher_of(const std::string& folder);

}  // namespace npu::client
