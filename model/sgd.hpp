// Stochastic gradient descent over flat fp32 memory, one fused pass.
#pragma once

#include <cstdint>
#include <span>

#include "shm/base/error.hpp"

namespace npu::model {

/// Which parameters the weight decay touches.
enum class DecayScope : uint8_t {
  kAll,          // every parameter, as torch.optim.SGD(model.parameters())
  kWeightsOnly,  // conv and fc weights; neither BN parameters nor the fc bias (decay_bn: false)
  kNoBatchNorm,  // conv and fc weights and the fc bias (profile tf)
};

/// How momentum and learning rate meet; the two differ as soon as the learning rate changes.
enum class MomentumForm : uint8_t {
  kPytorch,  // v = m*v + g, p -= lr*v
  kTf,       // v = m*v - lr*g, p += v
};

struct SgdParams {
  float lr = 0.1F;
  float momentum = 0.9F;
  float weight_decay = 1e-4F;  // g += weight_decay * p
  bool nesterov = false;       // d = g + m*v instead of v; needs momentum > 0
  DecayScope decay = DecayScope::kAll;
  MomentumForm form = MomentumForm::kPytorch;
  float gradient_scale = 1;  // g *= gradient_scale first: 1/loss scale, or 1/world after a sum
};

/// Errors: invalid_argument (negative or non-finite value, nesterov without momentum, nesterov with
/// kTf).
[[nodiscard]] Result<void> check_sgd(const SgdParams& params);

/// The gradient_scale that unscales and clips in one multiplication: gradients are `unscale` times
/// what the buckets hold, the buckets' squares sum to `sum_squares`, and their norm shall not
/// exceed `max_norm`. Source: torch.nn.utils.clip_grad_norm_ after GradScaler.unscale_: the
/// coefficient is min(1, max_norm / (norm + 1e-6)).
[[nodiscard]] float clip_factor(double sum_squares, float unscale, double max_norm) noexcept;

/// One step. Momentum starts at zero, which equals torch's first-step copy (no dampening is
/// offered). `decay_applies` tells whether these parameters are in the scope of `params.decay`.
void sgd_update(std::span<float> parameters, std::span<float> momentum,
                std::span<const float> gradient, const SgdParams& params, bool decay_applies);

}  // namespace npu::model
