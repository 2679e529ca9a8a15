// How much arithmetic a training step asks for, from the shapes alone: what rates in FLOP/s are
// counted with.
#pragma once

#include <cstdint>

#include "model/network.hpp"

namespace npu::model {

/// Multiply-adds of one image in the convolutions and the classifier; what is between them is left
/// out, as is usual.
struct StepWork {
  uint64_t forward_macs = 0;
  uint64_t stem_macs = 0;  // of these, in the first convolution

  /// 2 a multiply-add; forward, input gradient and weight gradient cost the same, but nobody asks
  /// for the gradient of the images.
  [[nodiscard]] uint64_t training_flops() const noexcept {
    return 2 * (3 * forward_macs - stem_macs);
  }
};

/// Errors: as Network::plan says of a configuration; builds no primitive.
[[nodiscard]] Result<StepWork> step_work(const NetworkConfig& config);

}  // namespace npu::model
