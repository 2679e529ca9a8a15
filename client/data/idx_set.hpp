// A folder with the four IDX files of an MNIST-like set.
#pragma once

#include <string>

#include "client/data/dataset.hpp"

namespace npu::data {

/// Reads train-images, train-labels, t10k-images, t10k-labels from `folder`, each plain or .gz, and
/// names the set by digest. Errors: as open_dataset.
[[nodiscard]] Result<DatasetPair> open_idx_set(const std::string& folder, int num_classes);

}  // namespace npu::data
