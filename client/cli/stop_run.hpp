// Asks a run to stop: finds out which processes that means, proves that a number still means the
// process it was, and signals it. What stopping does is docs/design/012-training-control.md.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "client/api/admin.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {

struct StopTarget {
  pid_t pid = 0;
  UniqueFd pidfd{};
  bool launcher = false;  // it looks after the ranks; else it is a rank
};

/// The processes to signal for a run that goes on: its launcher, or its ranks when they have none.
/// A rank's number is believed when the daemon, which watches the process, still lists it after its
/// pidfd was opened; a launcher's when such a rank is its child and runs the same program.
/// Of a run that waits for devices it is the launcher that the daemon lists. Errors: not_found (it
/// ended meanwhile); as list_runs.
[[nodiscard]] Result<std::vector<StopTarget>> stop_targets(const std::string& socket,
                                                           const client::RunInfo& run);

/// The launcher that holds the lock in a run's folder, nothing when none does: a run may have no
/// ranks for a moment, as between two attempts. Errors: as launcher_of.
[[nodiscard]] Result<std::optional<StopTarget>> stop_target_of_folder(const std::string& folder);

/// `now` false: SIGTERM, so that the ranks finish their step and save. `now` true: at once; a
/// launcher is asked a second time as soon as it has taken notice of the first, ranks are killed.
/// A process that has ended meanwhile is no error. Errors: permission_denied.
[[nodiscard]] Result<void> signal_targets(const std::vector<StopTarget>& targets, bool now);

/// True once all of them have ended, false at the deadline.
[[nodiscard]] bool await_end(const std::vector<StopTarget>& targets, Deadline deadline);

}  // namespace npu::cli
