// Runs the ranks of one job as child processes and ends all of them when one fails or somebody says
// stop. Knows nothing of training: what a rank runs is an argv, so tests use /bin/sh.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/launch/child.hpp"
#include "client/launch/stop_signals.hpp"
#include "client/render/renderer.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {

struct RankSpec {
  int rank = 0;
  int device = 0;
  std::string path{};  // program
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // complete; NPU_EVENT_FD and NPU_PICTURES_FD are added
  int core = -1;                   // the only processor it may use, -1 = any
  int pictures_fd = -1;            // memory for decoded pictures that all ranks inherit, -1 = none
};

struct SupervisorOptions {
  std::string program = "npu launch";  // begins every remark
  // TERM to KILL after a signal to the launcher, and what the others get when a rank stops by
  // itself because somebody asked it: time for a step and a checkpoint.
  milliseconds stop_grace{30'000};
  milliseconds failure_grace{2000};  // TERM to KILL after a rank failed
  // What the others get to say why they fail, too; a rank speaks 150 ms after it learned of it at
  // the latest.
  milliseconds settle{250};
  milliseconds settle_consequence{
      500};                 // how long to look for a cause when only consequences are in
  Child* daemon = nullptr;  // a private daemon whose death ends the job; not owned
  /// Starts that daemon again in the same place, after which `daemon` is the new one; the ranks go
  /// on. Told whether they made a step under the one that died. False, or empty: its death ends the
  /// job.
  std::function<bool(bool made_a_step)> respawn{};
};

struct JobOutcome {
  int exit_code =
      0;  // 0, 80 (stopped as asked), the first failed rank's, or 128 + signal (stopped by force)
  int stop_signal = 0;  // that the launcher got, whatever came of it
  int failed_rank = -1;
  bool well = true;                 // every rank finished, or stopped as asked
  std::string reason{};             // if not: who failed first and how, in one line
  int64_t first_step = 1;           // that rank 0 said it begins with
  int64_t committed_step = -1;      // of the highest checkpoint, on disk or in memory; -1: none
  std::string committed{};          // path of the last one on disk
  std::optional<DoneEvent> done{};  // what rank 0 said at its end
};

/// Starts every rank, shows their events and output (lines prefixed "[rank 3] ") on `renderer` and
/// returns when all are gone, the `done` record excepted, which it hands back; none is left behind,
/// whatever happens. A failure is reported there, too: text on stderr and an ErrorEvent, in which
/// case `done` says only that rank 0 came to its end. Errors: a rank that cannot be started (the
/// others are ended). Thread: the main thread. Cost: one epoll loop, no polling but for what is
/// live on a terminal.
[[nodiscard]] Result<JobOutcome> supervise(const std::vector<RankSpec>& ranks, StopSignals& signals,
                                           Renderer& renderer, const SupervisorOptions& options);

}  // namespace npu::client
