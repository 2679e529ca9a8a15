// SIGHUP: the configuration file again, all of it or nothing.
#pragma once

#include <string>
#include <string_view>

#include "config/daemon.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

struct Reloaded {
  config::DaemonConfig config;
  std::string changed;        // keys that take effect now: "log_level, service.drain_timeout"
  std::string needs_restart;  // keys that differ from how the daemon was started and cannot
};

/// Reads and checks the file. Errors: as load_daemon_config; nothing was changed then.
[[nodiscard]] Result<Reloaded> read_again(const std::string& path,
                                          const config::DaemonConfig& started,
                                          const config::DaemonConfig& present);

/// What is wrong, of a message with source lines and carets, on one line.
[[nodiscard]] std::string in_one_line(std::string_view message);

}  // namespace npu::daemon
