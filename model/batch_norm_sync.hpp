// Batch statistics over several networks that step together, one a rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/batch_norm.hpp"

namespace npu::model {

/// Adds `values` over the ranks, in place; all ranks call it in the same order with as many values.
/// It cannot fail towards the network: after a failure it leaves them alone, and whoever made it
/// knows.
using SumOverRanks = std::function<void(std::span<double> values)>;

/// Source: torch.nn.SyncBatchNorm. Statistics and the sums of the input gradient are those of all
/// ranks; parameter gradients stay each rank's own and meet with all others in the buckets.
struct BatchNormSync {
  int ranks = 1;
  std::span<double> staging;  // two doubles a channel of the widest layer
  SumOverRanks sum;           // empty: every network for itself

  /// The sums of a forward pass over `count` rows become those of all ranks; returns their rows.
  [[nodiscard]] uint64_t forward(BatchNorm& bn, uint64_t count) const;
  /// The same for the sums of a backward pass.
  [[nodiscard]] uint64_t backward(BatchNorm& bn, uint64_t count) const;
};

}  // namespace npu::model
