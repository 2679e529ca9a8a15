// Reproducible test data.
#pragma once

#include <cstdint>
#include <vector>

namespace npu::model::test {

/// `count` values in [-1, 1) from a fixed linear congruential generator.
[[nodiscard]] inline std::vector<float> random_values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761U + 12345U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
  }
  return values;
}

}  // namespace npu::model::test
