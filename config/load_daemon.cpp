// The daemon's table and its loader, on the same machinery as jobs.
#include "config/daemon.hpp"
#include "config/schema.hpp"
#include "shm/base/fd.hpp"

namespace npu::config {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kTiB = kMiB * kMiB;

// clang-format off
std::vector<Field> daemon_fields(DaemonConfig& c) {
  return {
      {"devices", &c.devices, {1, 8}, {}, "emulated devices, ids from 0"},
      {"device_memory", BytesSlot{&c.device_memory_bytes}, {kMiB, kTiB}, {},
       "memory capacity of one device; used only as far as runs need it"},
      {"engine_threads", &c.engine_threads, {0, 256}, {},
       "threads that run collectives, 0 = one a core"},
      {"log_level", &c.log_level, {}, {}, "as NPU_LOG: a level, then logger=level pairs"},
      {"runtime_dir", &c.runtime_dir, {}, {},
       "folder of npud.sock; empty = RUNTIME_DIRECTORY, XDG or /tmp"},
      {"state_dir", &c.state_dir, {}, {},
       "folder of the checkpoint store; empty = STATE_DIRECTORY, XDG or /tmp"},
      {"checkpoint_limit", BytesSlot{&c.checkpoint_limit_bytes}, {0, 1024 * kTiB}, {},
       "largest checkpoint store of one user, 0 = no limit"},
  };
}
// clang-format on

}  // namespace

Result<DaemonConfig> load_daemon_config(const std::string& path,
                                        std::span<const std::string> overrides) {
  NPU_TRY(const std::string text, read_config_file(path));
  return load_daemon_text(text, path, overrides);
}

Result<DaemonConfig> load_daemon_text(std::string_view text, const std::string& file_name,
                                      std::span<const std::string> overrides) {
  DaemonConfig config;
  const std::vector<Field> fields = daemon_fields(config);
  Places places;
  Diagnostics out(file_name, text, overrides);
  (void)read_text(text, overrides, fields, places, out);
  NPU_TRY_VOID(finish(out, ""));
  return config;
}

std::string print_daemon_config(const DaemonConfig& config) {
  DaemonConfig copy = config;
  return print_fields(daemon_fields(copy));
}

std::string daemon_schema_text() {
  DaemonConfig config;
  return schema_fields(daemon_fields(config));
}

}  // namespace npu::config
