// The averaged weights of a checkpoint as a model file of their own.
#pragma once

#include "client/api/admin.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {

/// A safetensors file in memory with the names of model.safetensors: `ema.<name>` from
/// optimizer.safetensors, num_batches_tracked from the model. Errors: not_found when the job kept
/// no average; data_loss when a header does not hold.
[[nodiscard]] Result<UniqueFd> averaged_model(client::CheckpointFiles files);

}  // namespace npu::cli
