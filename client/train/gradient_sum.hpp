// Gradients of a step's passes, summed in fp32 until the last one.
#pragma once

#include <cstdint>
#include <span>

#include "client/train/arena.hpp"
#include "model/kernels/kernels.hpp"
#include "model/network.hpp"

namespace npu::client {

/// Sum over the passes of a step but the last, in the arena. Passes are added in their order, so
/// the bits are fixed. Thread: one.
class GradientSum {
 public:
  /// Arena bytes that place() takes.
  [[nodiscard]] static uint64_t bytes(const model::Network& network) noexcept;
  /// Network: bound.
  [[nodiscard]] Result<void> place(model::Network& network, ArenaAllocator& arena);

  /// A bucket of an earlier pass is ready: takes it in, the first one as it is.
  void keep(model::Network& network, size_t bucket, bool first) noexcept;
  /// The bucket of the last pass is ready: the sum of the others is added to it.
  void add_to(model::Network& network, size_t bucket) const noexcept;

 private:
  /// Gradients of a bucket, without the metrics slot behind the last one.
  [[nodiscard]] static std::span<float> gradients(model::Network& network, size_t bucket) noexcept;
  [[nodiscard]] std::span<float> kept(model::Network& network, size_t bucket) const noexcept;

  const model::Kernels& kernels_ = model::default_kernels();
  std::span<float> sum_;
};

}  // namespace npu::client
