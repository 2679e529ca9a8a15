// Checks of the optimiser's settings and its fused update.
#include "model/sgd.hpp"

#include <algorithm>
#include <cmath>

#include "model/kernels/kernels.hpp"

namespace npu::model {
namespace {

Result<void> check_range(const char* what, float value, float low, float high) {
  if (std::isfinite(value) && value >= low && value <= high) return {};
  return fail(Code::kInvalidArgument, "optimizer.{} is {}; expected a number in {}..{}", what,
              value, low, high);
}

}  // namespace

Result<void> check_sgd(const SgdParams& params) {
  NPU_TRY_VOID(check_range("lr", params.lr, 0, 1e6F));
  NPU_TRY_VOID(check_range("momentum", params.momentum, 0, 1));
  NPU_TRY_VOID(check_range("weight_decay", params.weight_decay, 0, 1e6F));
  if (params.nesterov && params.momentum <= 0) {
    return fail(Code::kInvalidArgument,
                "optimizer.nesterov needs a momentum above 0, which is {}; set one or turn it off",
                params.momentum);
  }
  if (params.nesterov && params.form == MomentumForm::kTf) {
    return fail(Code::kInvalidArgument,
                "optimizer.nesterov is not defined for profile tf; turn it off or use pytorch");
  }
  return {};
}

float clip_factor(double sum_squares, float unscale, double max_norm) noexcept {
  const auto factor = static_cast<double>(unscale);
  const double norm = std::sqrt(sum_squares) * factor;
  return static_cast<float>(factor * std::min(1.0, max_norm / (norm + 1e-6)));
}

void sgd_update(std::span<float> parameters, std::span<float> momentum,
                std::span<const float> gradient, const SgdParams& params, bool decay_applies) {
  NPU_CHECK(parameters.size() == momentum.size() && parameters.size() == gradient.size());
  static const Kernels& kernels = default_kernels();
  kernels.sgd({.parameters = parameters.data(),
               .momentum = momentum.data(),
               .gradient = gradient.data(),
               .lr = params.lr,
               .mu = params.momentum,
               .decay = decay_applies ? params.weight_decay : 0.0F,
               .gradient_scale = params.gradient_scale,
               .nesterov = params.nesterov,
               .tf = params.form == MomentumForm::kTf},
              parameters.size());
}

}  // namespace npu::model
