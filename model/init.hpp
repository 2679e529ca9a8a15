// Fresh parameter values: drawn from a generator keyed by (seed, parameter index), never by thread
// or rank.
#pragma once

#include <cstdint>
#include <span>

#include "model/parameters.hpp"

namespace npu::model {

/// Whose distributions parameters are drawn from. The values are neither's: the generator is ours.
enum class InitForm : uint8_t {
  // torchvision's ResNet: kaiming normal with fan_out and gain sqrt(2) for convolutions, BN 1/0,
  // fc weight and bias uniform in +-1/sqrt(fc_inputs).
  kPytorch,
  // TensorFlow's official ResNet: Keras' he_normal for convolutions (fan_in, cut at two standard
  // deviations and widened to the variance that was asked for), BN 1/0, fc weight N(0, 0.01), fc
  // bias 0.
  kTf,
};

/// Fills `out` (plain order) for parameter number `index` of the state dict.
void draw_parameter(const Parameter& parameter, size_t index, uint64_t seed, int fc_inputs,
                    std::span<float> out, InitForm form = InitForm::kPytorch);

}  // namespace npu::model
