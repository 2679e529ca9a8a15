// The daemon's settings after every check, and how they are read from YAML.
// Command-line options of npud win over the file; that is done by npud itself.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::config {

enum class MetricsCompat : uint8_t { kNone = 0, kAscend = 1 };

/// What a quota counts of one user, in the order of the keys.
enum class QuotaKind : uint8_t { kDevices, kMemory, kSessions, kStaged, kCheckpoints, kMessages };
inline constexpr size_t kQuotaKinds = 6;

/// The most that one user may have at a time; 0 = no limit.
struct Quota {
  std::array<uint64_t, kQuotaKinds> most{0, 0, 64, 0, 0, 2000};

  [[nodiscard]] uint64_t operator[](QuotaKind kind) const noexcept {
    return most[static_cast<size_t>(kind)];
  }
  bool operator==(const Quota&) const = default;
};

/// What differs for one user; the rest is everybody's.
struct UserQuota {
  std::string user;  // a name of this host's, or a uid
  std::array<std::optional<uint64_t>, kQuotaKinds> most{};
};

struct QuotaConfig {
  Quota everybody;
  std::vector<UserQuota> users;
};

struct DaemonConfig {
  int devices = 8;
  uint64_t device_memory_bytes = uint64_t{4} << 30;  // capacity of one device
  int engine_threads = 0;                            // 0 = one a core
  std::string log_level = "info";                    // as NPU_LOG: "info,coll=trace"
  std::string runtime_dir;                           // empty: RUNTIME_DIRECTORY, XDG, /tmp
  std::string state_dir;                             // empty: STATE_DIRECTORY, XDG, /tmp
  std::string admin_group = "npu-admin";             // who is in it sees and ends all runs
  QuotaConfig quotas;
  struct Service {
    std::chrono::milliseconds drain_timeout{25'000};  // for collectives in flight, at SIGTERM
  } service;
  MetricsCompat metrics_compat = MetricsCompat::kNone;
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
