// Images made from a seed: every class has a smooth pattern of its own, every sample adds noise.
// A small network learns them, so loss curves and accuracies mean something without any data set.
#pragma once

#include <cstdint>

#include "client/data/dataset.hpp"

namespace npu::data {

struct SyntheticOptions {
  ImageShape shape{32, 32, 3};
  int num_classes = 10;
  size_t train_samples = 2048;
  size_t val_samples = 512;
  uint64_t seed = 0;
};

/// Same options, same bytes, on any host: integer arithmetic only. Labels go round robin over the
/// classes. Errors: invalid_argument, exit 78, when one split would exceed 4 GiB.
[[nodiscard]] Result<DatasetPair> make_synthetic(const SyntheticOptions& options);

}  // namespace npu::data
