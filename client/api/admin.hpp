// What a client can ask the daemon without holding a device: state of devices and runs,
// checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

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

struct RunInfo {
  std::string name;
  std::string state;  // "forming", "running", "aborted"
  int world = 0, joined = 0;
  uint64_t generation = 0;
  int64_t uid = -1;
  uint64_t collectives = 0;  // completed by the run's world communicator
  std::string last_error;
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

struct CheckpointInfo {
  std::string run;
  int64_t step = 0;
  uint64_t bytes = 0;
  int64_t unix_time = 0;
  bool latest = false;
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

/// Opens `step` of `run` after verifying it; step -1 = newest valid. Errors: not_found naming the
/// run; data_loss.
[[nodiscard]] Result<CheckpointFiles> open_checkpoint(const std::string& socket,
                                                      const std::string& run, int64_t step);

}  // namespace npu::client
