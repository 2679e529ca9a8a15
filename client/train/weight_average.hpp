// An exponential moving average of the weights, kept beside them.
#pragma once

#include <cstdint>
#include <span>

#include "client/train/arena.hpp"
#include "model/network.hpp"

namespace npu::client {

/// Average of parameters and batch-norm buffers in the network's own flat order, in the arena.
/// Source: torch.optim.swa_utils.AveragedModel with use_buffers, as torchvision's
/// ExponentialMovingAverage; it starts at the initial weights. num_batches_tracked is the
/// network's. Thread: one.
class WeightAverage {
 public:
  /// Arena bytes that place() takes.
  [[nodiscard]] static uint64_t bytes(const model::Network& network) noexcept;
  /// Network: bound.
  [[nodiscard]] Result<void> place(model::Network& network, ArenaAllocator& arena, double decay);

  /// Becomes a copy of the network.
  void start(model::Network& network) noexcept;
  /// average = decay * average + (1 - decay) * network, after a step that was applied.
  void update(model::Network& network) noexcept;
  /// Exchanges the average and the network: everything the network does in between, it does with
  /// the average.
  void swap(model::Network& network) noexcept;

  [[nodiscard]] std::span<float> parameters() const noexcept { return parameters_; }
  [[nodiscard]] std::span<float> buffers() const noexcept { return buffers_; }

 private:
  std::span<float> parameters_;
  std::span<float> buffers_;
  float decay_ = 0;
};

}  // namespace npu::client
