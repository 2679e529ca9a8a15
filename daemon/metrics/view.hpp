// Everything that one scrape shows, gathered by the control server: plain values, and pointers to counters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/metrics/control_counters.hpp"
#include "daemon/metrics/counters.hpp"
#include "daemon/metrics/process_stats.hpp"
#include "daemon/metrics/run_history.hpp"
#include "shm/progress_daemon.hpp"

namespace npu::daemon {

struct DeviceView {
  bool attached = false;
  uint64_t memory_used_bytes = 0;
  double heartbeat_age_s = 0;  // since the rank's last submission, or since it came
  bool stalled = false;        // others of its run wait for it, and it has not submitted anything for a while
  uint64_t ring_depth = 0;     // submissions without an answer
  // Whose it is, for those who may know: empty and 0 otherwise.
  std::string run;
  int64_t uid = -1;
  uint32_t rank = 0;
  int64_t pid = 0;
};

struct RunView {
  std::string name;
  int64_t uid = 0;
  uint64_t generation = 0;
  uint32_t world = 0;
  uint64_t step = 0;  // training steps, as rank 0 says
  shm::TrainingView training;
  RunHistory history;
  std::array<uint64_t, shm::kMaxDevices> last_arrivals{};  // by rank
};

enum class RunPhase : uint8_t { kPending, kRunning, kCompleting, kFailed };
inline constexpr size_t kRunPhases = 4;
[[nodiscard]] const char* run_phase_name(RunPhase phase) noexcept;

struct MetricsView {
  std::string version;
  double start_unix = 0;
  ProcessStats process;
  const EngineCounters* engine = nullptr;
  const ControlCounters* control = nullptr;
  uint64_t device_memory_bytes = 0;
  std::vector<DeviceView> devices;
  BusyMeter::ByDevice busy{};
  std::array<uint64_t, kRunPhases> runs_by_phase{};  // of all users
  uint64_t inflight = 0;                             // operations, of all users
  std::vector<RunView> runs;                         // that the caller may see; a name once for each user
  bool ascend = false;                               // repeat some under the names of Ascend's exporter
};

/// The answer to a scrape.
[[nodiscard]] std::string metrics_text(const MetricsView& view);

}  // namespace npu::daemon
