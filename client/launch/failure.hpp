// Who failed first, and the report that says so: rank, pid, device, how it ended, what it was
// doing.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "client/launch/child.hpp"
#include "client/render/events.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {

/// What is known about one rank when the job is over.
struct RankEnd {
  int rank = 0;
  int device = 0;
  pid_t pid = 0;
  ExitStatus status{};
  Clock::time_point ended_at{};
  bool ended_by_us = false;           // still alive when the launcher began to stop the job
  std::optional<ErrorEvent> error{};  // what it said itself
  std::string last_log{};             // last line of its own output
};

/// True for exit code 80: the rank finished its step and saved, because a signal asked it to.
[[nodiscard]] bool stopped_as_asked(const RankEnd& end) noexcept;

/// True for the ways in which a rank ends because of somebody else: a peer or the daemon went away.
[[nodiscard]] bool is_consequence(const RankEnd& end) noexcept;

/// Index of the rank to blame: a signal or an exit code of its own before consequences, one that
/// explained itself before a silent one, then whoever ended first. Nothing when all ended well.
[[nodiscard]] std::optional<size_t> pick_culprit(std::span<const RankEnd> ends);

struct Failure {
  size_t culprit = 0;
  std::string doing;      // "epoch 3 step 309"
  std::string wall_time;  // "14:02:17", when it was noticed
};

/// The report for stderr, a line for the culprit and a line for each thing that others reported,
/// and HCCL's code with cause, suspect and remedy where there is one.
[[nodiscard]] std::string format_failure(std::span<const RankEnd> ends, const Failure& failure);

/// "rank 3 (pid 4711) killed by SIGKILL, epoch 3 step 309": one line, for what comes after it.
[[nodiscard]] std::string failure_reason(std::span<const RankEnd> ends, const Failure& failure);

/// The same as one record for `-o json`.
[[nodiscard]] ErrorEvent failure_event(std::span<const RankEnd> ends, const Failure& failure);

}  // namespace npu::client
