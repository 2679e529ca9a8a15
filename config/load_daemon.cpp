// The daemon's table and its loader, on the same machinery as jobs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/daemon.hpp"
#include "config/quotas.hpp"
#include "config/schema.hpp"
#include "shm/base/fd.hpp"

namespace npu::config {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kTiB = kMiB * kMiB;
constexpr std::string_view kMetricsCompat[] = {"none", "ascend"};

Field reloadable(Field field) {
  field.reloadable = true;
  return field;
}
constexpr std::string_view kOldCheckpointLimit = "checkpoint_limit";

// clang-format off
std::vector<Field> daemon_fields(DaemonConfig& c) {
  std::vector<Field> fields = {
      {"devices", &c.devices, {1, 8}, {}, "emulated devices, ids from 0"},
      {"device_memory", BytesSlot{&c.device_memory_bytes}, {kMiB, kTiB}, {},
       "memory capacity of one device; used only as far as runs need it"},
      {"engine_threads", &c.engine_threads, {0, 256}, {},
       "threads that run collectives, 0 = one a core"},
      reloadable({"log_level", &c.log_level, {}, {}, "as NPU_LOG: a level, then logger=level pairs"}),
      {"runtime_dir", &c.runtime_dir, {}, {},
       "folder of npud.sock; empty = RUNTIME_DIRECTORY, XDG or /tmp"},
      {"state_dir", &c.state_dir, {}, {},
       "folder of the checkpoint store; empty = STATE_DIRECTORY, XDG or /tmp"},
      {"admin_group", &c.admin_group, {}, {},
       "group whose members see and end all runs, as root does; empty = root alone"},
      {kOldCheckpointLimit, BytesSlot{&c.quotas.everybody.most[size_t(QuotaKind::kCheckpoints)]},
       {0, 1024 * kTiB}, {}, "older name of quotas.checkpoints"},
      reloadable({"service.drain_timeout", &c.service.drain_timeout, {0, 3'600'000}, {},
                  "for collectives in flight when the daemon is told to stop, 0 = none"}),
      reloadable({"metrics.compat", EnumSlot{reinterpret_cast<uint8_t*>(&c.metrics_compat)}, {}, kMetricsCompat,
                  "ascend: metrics also under the names and in the units of Ascend's exporter"}),
  };
  // clang-format on
  for (Field& field : quota_fields(c.quotas.everybody)) fields.push_back(reloadable(field));
  fields.push_back(reloadable({"quotas.users",
                               UserQuotasSlot{&c.quotas.users},
                               {},
                               {},
                               "what is different for one user, such as alice: {devices: 2}"}));
  return fields;
}

constexpr std::array<std::string_view, 9> kLevels = {
    "trace", "debug", "info", "warn", "warning", "error", "err", "critical", "off"};

/// The first word that is no level. A logger's name may be anybody's: NPU_LOG is the same for
/// programs that have other loggers.
std::optional<std::string_view> wrong_level(std::string_view levels) {
  while (!levels.empty()) {
    const size_t comma = std::min(levels.find(','), levels.size());
    const std::string_view item = levels.substr(0, comma);
    const size_t equals = item.find('=');
    const std::string_view level = equals == item.npos ? item : item.substr(equals + 1);
    if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) return item;
    levels.remove_prefix(std::min(comma + 1, levels.size()));
  }
  return std::nullopt;
}

void check_levels(const DaemonConfig& config, const Places& places, Diagnostics& out) {
  const auto written = places.written.find("log_level");
  if (written == places.written.end() || places.refused.contains("log_level")) return;
  const auto wrong = wrong_level(config.log_level);
  if (!wrong) return;
  out.add(written->second, fmt::format("log_level: {} is no level", quoted(*wrong)),
          "such as info,ckpt=debug; levels: trace debug info warn error critical off");
}

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
  if (read_text(text, overrides, fields, places, out)) check_levels(config, places, out);
  const auto old = places.written.find(kOldCheckpointLimit);
  if (old != places.written.end() && places.written.contains("quotas.checkpoints")) {
    out.add(old->second,
            "checkpoint_limit: the older name of quotas.checkpoints; give one of them");
  }
  NPU_TRY_VOID(finish(out, ""));
  return config;
}

std::vector<Difference> differences(const DaemonConfig& a, const DaemonConfig& b) {
  DaemonConfig left = a, right = b;
  const std::vector<Field> of_left = daemon_fields(left), of_right = daemon_fields(right);
  std::vector<Difference> found;
  for (size_t i = 0; i < of_left.size(); ++i) {
    if (of_left[i].path == kOldCheckpointLimit) continue;
    if (value_text(of_left[i]) == value_text(of_right[i])) continue;
    found.push_back({std::string(of_left[i].path), of_left[i].reloadable});
  }
  return found;
}

std::string print_daemon_config(const DaemonConfig& config) {
  DaemonConfig copy = config;
  std::vector<Field> fields = daemon_fields(copy);
  std::erase_if(fields, [](const Field& field) { return field.path == kOldCheckpointLimit; });
  return print_fields(fields);
}

std::string daemon_schema_text() {
  DaemonConfig config;
  return schema_fields(daemon_fields(config));
}

std::vector<KeyDoc> daemon_keys() {
  DaemonConfig config;
  return key_docs(daemon_fields(config));
}

}  // namespace npu::config
