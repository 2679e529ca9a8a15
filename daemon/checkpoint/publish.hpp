// From a complete temporary directory to a checkpoint that readers see, and the tidying afterwards.
// Every function needs the run lock.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/checkpoint/inspect.hpp"

namespace npu::daemon {

/// Makes `temp` appear as step-N in one rename and flushes the run directory. A step-N that exists
/// stays valid until the new one is durable; it is removed then. On failure the old state is back
/// and `temp` is still there. Returns whether an older step-N was replaced; a copy of it that could
/// not be removed is a warning.
[[nodiscard]] Result<bool> publish(FileOps& ops, const RunDir& run, const std::string& temp,
                                   uint64_t step, std::vector<StoreWarning>* warnings);

/// Points LATEST at `step`: a hint for people and scripts, the store itself goes by the manifests.
[[nodiscard]] Result<void> write_latest(FileOps& ops, const RunDir& run, uint64_t step);

/// Makes BEST name this commit: "step-40 7", step and sequence.
[[nodiscard]] Result<void> write_best(FileOps& ops, const RunDir& run, uint64_t step,
                                      uint64_t sequence);

/// The step that BEST names, if it is among `steps` with that sequence: a commit that replaced it
/// is another one. A step whose manifest cannot be read counts by its name. Nothing for a BEST that
/// is missing or not understood. Errors: what reading it
/// says.
[[nodiscard]] Result<std::optional<uint64_t>> best_step(FileOps& ops, const RunDir& run,
                                                        std::span<const ScannedStep> steps);

struct RotateOptions {
  uint64_t committed_step = 0;  // never removed
  uint32_t keep = 1;
  std::span<const uint64_t> protect_steps;
};

/// Removes all but the `keep` newest commits and the best. A checkpoint of a newer schema is never
/// removed; a damaged one counts as the oldest. Returns the removed steps.
[[nodiscard]] Result<std::vector<uint64_t>> rotate(FileOps& ops, const RunDir& run,
                                                   const RotateOptions& options);

/// Removes what a dead writer left in this run, and restores a checkpoint that it had set aside.
[[nodiscard]] Result<SweepReport> sweep_run(FileOps& ops, const RunDir& run);

}  // namespace npu::daemon
