// Fresh parameter values: drawn from a generator keyed by (seed, parameter index), never by thread
// or rank.
#pragma once

#include <cstdint>
#include <span>

#include "model/parameters.hpp"

namespace npu::model {

/// Fills `out` (plain order) for parameter number `index` of the state dict.
/// Source: torchvision's ResNet: kaiming normal with fan_out and gain sqrt(2) for convolutions, BN
/// 1/0, fc weight and bias uniform in +-1/sqrt(fc_inputs). The values are not torch's: the
/// generator is ours.
void draw_parameter(const Parameter& parameter, size_t index, uint64_t seed, int fc_inputs,
                    std::span<float> out);

}  // namespace npu::model
