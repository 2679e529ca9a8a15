// CIFAR-10 and CIFAR-100 in their binary version.
#pragma once

#include <string>

#include "client/data/dataset.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

enum class Cifar : uint8_t { k10, k100 };

/// Reads the set in `folder`, or in cifar-10-batches-bin / cifar-100-binary below it. Labels of
/// CIFAR-100 are the fine ones. Errors: not_found (exit 66) naming every file that is missing;
/// failed_precondition or data_loss (exit 65): wrong size, label out of range, class names that are
/// not as many as the format has. Cost: 180 MB read; the same in memory.
/// Source: the format's description at www.cs.toronto.edu/~kriz/cifar.html.
[[nodiscard]] Result<DatasetPair> open_cifar(const std::string& folder, Cifar kind);

}  // namespace npu::data
