// What `npu info` knows at one moment: the daemon's word, and what the flight recorders of its runs
// and /proc add to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/api/admin.hpp"
#include "client/launch/process_stat.hpp"
#include "shm/base/clock.hpp"

namespace npu::cli {

/// The others of a run wait for a rank longer than that: its device counts as stalled. Steps and
/// checkpoints of the shipped jobs keep others waiting for less than a second.
inline constexpr std::chrono::seconds kStallAfter{10};

struct DeviceState {
  client::DeviceInfo device;
  std::string process;                    // what ps calls it, printable; empty: not known
  std::optional<double> process_percent;  // processor time since the look before, of one core
  std::optional<double> wait_s;           // how long the others have waited for this rank
  bool stalled = false;
};

struct InfoState {
  client::DaemonInfo daemon;         // its devices are those that were asked for
  std::vector<DeviceState> devices;  // the same, with what is known besides
  std::vector<std::string> warnings;
};

/// Looks again and again. Thread: one at a time.
class InfoProbe {
 public:
  /// The daemon as for daemon_to_ask; `only`: ids of devices, empty for all.
  InfoProbe(std::string socket, std::vector<int> only)
      : named_(std::move(socket)), only_(std::move(only)) {}

  /// Errors: as daemon_to_ask and query_info; not_found naming a device that is not there.
  [[nodiscard]] Result<InfoState> look();

 private:
  struct Sample {
    uint64_t started_ticks = 0, cpu_ticks = 0;
    Clock::time_point at{};
  };

  [[nodiscard]] Result<void> keep_wanted(client::DaemonInfo& info) const;
  [[nodiscard]] std::optional<double> percent(int64_t pid, const client::ProcessStat& stat,
                                              std::map<int64_t, Sample>& now) const;

  std::string named_;
  std::vector<int> only_;
  std::map<int64_t, Sample> samples_;  // by pid, of the look before
};

}  // namespace npu::cli
