// Softmax + cross entropy in fp32 and the top-k counts that go with it, one fused pass over the
// logits.
#pragma once

#include <cstdint>
#include <span>

#include "shm/base/error.hpp"

namespace npu::model {

/// Sums over samples, so that partial batches and ranks add up exactly; divide once, by the sample
/// count.
struct LossAndHits {
  double loss_sum = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;  // every sample counts when there are fewer than five classes

  LossAndHits& operator+=(const LossAndHits& other) noexcept;
};

/// Loss and hits of `labels.size()` samples; the gradient too when `gradient` is not empty.
/// Shapes: logits and gradient [n, classes] row-major; gradient = d(scale * sum of
/// losses)/d(logits), so
///         scale = 1/n gives the gradient of the mean. The gradient may be the logits themselves.
/// Errors: invalid_argument (a label outside [0, classes): names sample and label; nothing is
/// written). Source: log-sum-exp with the maximum taken out; smoothed loss (1-e)*CE + e/K*sum(-log
/// p), as
///         torch.nn.functional.cross_entropy. Ties in top-k go to the lowest index; a NaN logit is
///         a miss.
[[nodiscard]] Result<LossAndHits> softmax_cross_entropy(std::span<const float> logits,
                                                        std::span<const int32_t> labels,
                                                        int classes, float label_smoothing,
                                                        float scale, std::span<float> gradient);

}  // namespace npu::model
