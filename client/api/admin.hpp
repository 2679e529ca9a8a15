// What a client can ask the daemon without holding a device: state of devices and runs,
// checkpoints, flight recorders, metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/messages.hpp"
#include "shm/segment.hpp"
#include "shm/trace_reader.hpp"

namespace npu::client {

struct DeviceInfo {
  int id = 0;
  std::string state;  // "idle", "busy"
  uint64_t memory_total_bytes = 0, memory_used_bytes = 0;
  std::string run;  // empty when idle
  int rank = -1;
  int64_t pid = 0;
  int64_t uid = -1;
  uint64_t collectives = 0;  // completed by this lease
};

struct RunRank {
  int rank = 0, device = 0;
  int64_t pid = 0;     // 0: has not come, or has left
  uint64_t steps = 0;  // training steps, as the rank says
};

struct RunInfo {
  std::string name;
  std::string state;  // "forming", "running", "aborted"; in list_runs also "pending", "ended"
  int world = 0, joined = 0;
  uint64_t generation = 0;
  int64_t uid = -1;
  int64_t started_unix = 0, ended_unix = 0;  // seconds; 0: has not ended, or is not known
  uint64_t collectives = 0;                  // completed by the run's world communicator
  uint32_t failed_checkpoints = 0;           // in a row, up to the last one
  std::string last_error;                    // of a pending run: what it waits for
  int64_t launcher = 0;  // pid of the launcher that waited for its devices, 0: none did
  uint32_t place = 0;    // of a pending run in the line, 1 is next; 0: has its devices
  std::vector<RunRank> ranks;  // all `world` of them
};

struct DaemonInfo {
  std::string socket, version;
  int64_t pid = 0;
  uint32_t engine_threads = 0;
  std::vector<DeviceInfo> devices;
  std::vector<RunInfo> runs;
};

/// Sockets tried in order when none is given: NPUD_SOCKET, the user's runtime directory,
/// /run/npud/npud.sock.
[[nodiscard]] std::vector<std::string> default_sockets();

/// The first socket of `explicit_socket` (if not empty) or default_sockets() at which a daemon
/// answers. Errors: unavailable naming every path that was tried.
[[nodiscard]] Result<std::string> find_daemon(const std::string& explicit_socket);

[[nodiscard]] Result<DaemonInfo> query_info(const std::string& socket);

/// Runs of all users: first those going on, then the last ones that are over.
[[nodiscard]] Result<std::vector<RunInfo>> list_runs(const std::string& socket);

/// Ends the run of that name, and whoever waits for devices under it; its ranks are told `reason`
/// and end with exit code 77. `uid`: whose, -1 for the caller's own or else the only one. Returns
/// what was ended. Errors: not_found (no such run that the caller may end: root, the daemon's user
/// and the administrators' group may end all); failed_precondition (several users have one).
[[nodiscard]] Result<std::vector<RunInfo>> evict_run(const std::string& socket,
                                                     const std::string& run, int64_t uid,
                                                     const std::string& reason);

/// Lets the daemon end in order, as SIGTERM does. Errors: permission_denied.
[[nodiscard]] Result<void> drain_daemon(const std::string& socket);

/// A run's flight recorder at one moment.
struct Trace {
  std::string run;
  std::string state;  // as RunInfo::state
  std::string last_error;
  uint64_t generation = 0;
  int world = 0;
  shm::TraceSnapshot snapshot;
};

/// The flight recorder of one run, mapped once and read as often as one likes. Thread: one at a
/// time.
class TraceWatch {
 public:
  /// The newest run of that name. Errors: as read_run_trace.
  [[nodiscard]] static Result<TraceWatch> open(const std::string& socket, const std::string& run);

  /// The newest `limit` records now. Cost: 192 bytes read a record; the daemon is not asked.
  [[nodiscard]] shm::TraceSnapshot snapshot(uint64_t limit) const;

  [[nodiscard]] const shm::TraceOpened& opened() const noexcept { return opened_; }

 private:
  TraceWatch(shm::Mapping mapping, const shm::TraceOpened& opened)
      : mapping_(std::move(mapping)), opened_(opened) {}
  shm::Mapping mapping_;
  shm::TraceOpened opened_;
};

/// The newest `limit` records of the newest run of that name. Errors: not_found naming the runs
/// there are of this user; failed_precondition (another version).
[[nodiscard]] Result<Trace> read_run_trace(const std::string& socket, const std::string& run,
                                           uint64_t limit);

/// The daemon's metrics that the caller may see, in Prometheus' text format.
[[nodiscard]] Result<std::string> read_metrics(const std::string& socket);

struct CheckpointInfo {
  std::string run;
  int64_t step = 0;
  uint64_t bytes = 0;
  int64_t unix_time = 0;
  bool latest = false;
  bool best = false;  // of the best epoch of its run
  std::string path;
  std::string state;  // "valid", or after a verify what is wrong with it
};

/// Checkpoints of the caller's `run`, oldest first; all runs when `run` is empty.
/// `verify` reads every byte and checks every digest.
[[nodiscard]] Result<std::vector<CheckpointInfo>> list_checkpoints(const std::string& socket,
                                                                   const std::string& run,
                                                                   bool verify);

/// Read-only descriptors of one committed checkpoint.
struct CheckpointFiles {
  int64_t step = 0;
  std::string path;
  std::string warning;               // newer checkpoints that were skipped, empty if none
  UniqueFd model, optimizer, state;  // model.safetensors, optimizer.safetensors, state.json
};

inline constexpr int64_t kNewestStep = shm::kNewestStep;
inline constexpr int64_t kBestStep = shm::kBestStep;
inline constexpr int64_t kResumeStep = shm::kResumeStep;

/// Opens `step` of `run`, or one of the above, after verifying it; only kResumeStep finds one that
/// is in the daemon's memory, whose path is then "memory:RUN/step-N". Errors: not_found naming the
/// run; data_loss.
[[nodiscard]] Result<CheckpointFiles> open_checkpoint(const std::string& socket,
                                                      const std::string& run, int64_t step);

}  // namespace npu::client
