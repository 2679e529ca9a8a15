// The first weights of a run, from a safetensors file that PyTorch or this program wrote.
#pragma once

#include <span>
#include <string>

#include "model/network.hpp"
#include "shm/base/error.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::client {

/// Errors: as open(2) says, exit 66 for what is no regular file; data_loss when it is not a
/// safetensors file or is damaged.
[[nodiscard]] Result<SafetensorsFile> open_pretrained(const std::string& path);

/// Parameters, running statistics and, where the file has them, batch counters of `network`, under
/// the names that import_name knows; momentum is not touched. Names, types and shapes are checked
/// before the first value is written. With `ignore_head` fc.weight and fc.bias stay as they are and
/// the file may lack them. `scratch` holds the largest entry.
/// Errors: failed_precondition naming tensors that are missing, left over, or of another type or
/// shape; data_loss (the file was cut since it was opened, a value is not finite).
[[nodiscard]] Result<void> load_pretrained(model::Network& network, const SafetensorsFile& file,
                                           bool ignore_head, std::span<float> scratch);

}  // namespace npu::client
