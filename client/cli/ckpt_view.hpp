// Checkpoints as a table, as an object, and what is inside of one.
#pragma once

#include <string>
#include <vector>

#include "client/api/admin.hpp"

namespace npu::cli {

/// One line each: run, step, size, time, state, path; a star marks the one a resume would take, a
/// plus the one of the best epoch.
[[nodiscard]] std::string checkpoints_table(const std::vector<client::CheckpointInfo>& all);

/// {"schema":1,"checkpoints":[{run, step, bytes, unix_time, latest, best, state, path}]} on one
/// line.
[[nodiscard]] std::string checkpoints_json(const std::vector<client::CheckpointInfo>& all);

/// Path, step, file sizes, the training state and the name, type and shape of every tensor of the
/// model. Errors: data_loss when a header does not hold.
[[nodiscard]] Result<std::string> checkpoint_contents(client::CheckpointFiles files);

}  // namespace npu::cli
