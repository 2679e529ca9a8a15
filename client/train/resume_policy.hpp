// What happens when a checkpoint and the job that resumes it do not say the same. Pure functions;
// the rules are those of docs/design/012-training-control.md.
#pragma once

#include <string>
#include <vector>

#include "client/train/train_state.hpp"

namespace npu::client {

/// How a job goes on from a checkpoint.
struct ResumePlan {
  std::vector<config::Setting> adopted;  // the checkpoint's, to be set in the job on all ranks
  std::vector<std::string> notes;        // what the job changes, because it may
  std::vector<std::string> warnings;     // what it does not change, and what may surprise
};

/// Compares what the checkpoint at `path` says of its job with `job`. Errors: failed_precondition
/// naming the key and both values, when it cannot go on from there.
[[nodiscard]] Result<ResumePlan> plan_resume(const CheckpointIdentity& file, const config::Job& job,
                                             const std::string& path);

/// The same for a job that only evaluates: network and classes must agree, nothing else matters.
[[nodiscard]] Result<void> check_evaluation(const CheckpointIdentity& file, const config::Job& job,
                                            const std::string& path);

/// Moves to the beginning of train.start_epoch, unless the checkpoint was made under the same value
/// (`file_start_epoch`): it moves a run once, not at every resume.
void apply_start_epoch(const config::Job& job, std::optional<int64_t> file_start_epoch,
                       TrainState& state);

/// Why the job is over before its first step, with what to do to train longer; empty if it is not.
[[nodiscard]] std::string finished_note(const config::Job& job, const TrainState& state);

/// Settings as the text in which they travel from rank 0 to the others, and back.
[[nodiscard]] std::string settings_text(const std::vector<config::Setting>& settings);
[[nodiscard]] std::vector<config::Setting> settings_of_text(std::string_view text);

}  // namespace npu::client
