// The daemon's settings after every check, and how they are read from YAML.
// Command-line options of npud win over the file; that is done by npud itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::config {

struct DaemonConfig {
  int devices = 8;
  uint64_t device_memory_bytes = uint64_t{4} << 30;  // capacity of one device
  int engine_threads = 0;                            // 0 = one a core
  std::string log_level = "info";                    // as NPU_LOG: "info,coll=trace"
  std::string runtime_dir;                           // empty: RUNTIME_DIRECTORY, XDG, /tmp
  std::string state_dir;                             // empty: STATE_DIRECTORY, XDG, /tmp
  uint64_t checkpoint_limit_bytes = 0;               // of one user's store, 0 = no limit
  struct Service {
    std::chrono::milliseconds drain_timeout{25'000};  // for collectives in flight, at SIGTERM
  } service;
};

/// Same machinery, limits, messages and exit codes as load_job.
[[nodiscard]] Result<DaemonConfig> load_daemon_config(const std::string& path,
                                                      std::span<const std::string> overrides = {});
[[nodiscard]] Result<DaemonConfig> load_daemon_text(std::string_view text,
                                                    const std::string& file_name,
                                                    std::span<const std::string> overrides = {});

/// A key in which two sets of settings differ.
struct Difference {
  std::string path;
  bool reloadable = false;  // takes effect without a restart
};
/// In the order of the table.
[[nodiscard]] std::vector<Difference> differences(const DaemonConfig& a, const DaemonConfig& b);

/// Effective settings as YAML that loads back; keys, types, defaults and docs.
[[nodiscard]] std::string print_daemon_config(const DaemonConfig& config);
[[nodiscard]] std::string daemon_schema_text();

}  // namespace npu::config
