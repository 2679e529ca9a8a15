// Weights, images and labels by formula: the same integer hash as make_golden.py, so no tensor is
// stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/network.hpp"

namespace npu::golden {

/// The hash of (stream, position) in [-1, 1), exact in fp32.
[[nodiscard]] inline double hashed(uint32_t stream, uint32_t position) {
  uint32_t x = position * 0x9E3779B9U + stream * 0x85EBCA6BU + 1U;
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  x ^= x >> 16;
  return static_cast<double>(x >> 8) / 8388608.0 - 1.0;
}

[[nodiscard]] inline std::vector<float> images(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(hashed(1000, static_cast<uint32_t>(i)));
  }
  return values;
}

[[nodiscard]] inline std::vector<int32_t> labels(size_t count, int classes) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int32_t>(
        std::floor((hashed(1001, static_cast<uint32_t>(i)) + 1) * 0.5 * classes));
  }
  return values;
}

/// Imports the formula's parameters: number i of the state dict's parameters from stream i;
/// make_golden.py says why they are spread as they are.
inline void fill(model::Network& network) {
  uint32_t stream = 0;
  const auto state = network.state();
  const bool bottleneck = std::any_of(state.begin(), state.end(), [](const auto& entry) {
    return entry.name.ends_with("bn3.weight");
  });
  for (size_t i = 0; i < state.size(); ++i) {
    const model::StateEntry& entry = state[i];
    if (entry.kind != model::StateKind::kParameter) continue;
    double factor = 0.1;
    double offset = entry.name.ends_with("bias") ? 0 : 1;
    if (entry.name.ends_with(bottleneck ? "bn3.weight" : "bn2.weight")) offset = 0.25;
    if (entry.shape.size() == 4) {
      factor =
          std::sqrt(96.0 / static_cast<double>(entry.shape[0] * entry.shape[2] * entry.shape[3]));
      offset = 0;
    } else if (entry.shape.size() == 2) {
      factor = 1 / std::sqrt(static_cast<double>(entry.shape[1]));
      offset = 0;
    }
    std::vector<float> values(entry.count);
    for (size_t j = 0; j < values.size(); ++j) {
      values[j] = static_cast<float>(offset + factor * hashed(stream, static_cast<uint32_t>(j)));
    }
    network.import_state(i, values);
    ++stream;
  }
}

/// What a golden file keeps of a tensor.
struct Fingerprint {
  double norm = 0;
  double projection = 0;
};

[[nodiscard]] inline Fingerprint fingerprint(std::span<const float> values, uint32_t stream) {
  Fingerprint f;
  double square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto v = static_cast<double>(values[i]);
    square += v * v;
    f.projection += v * hashed(stream, static_cast<uint32_t>(i));
  }
  f.norm = std::sqrt(square);
  return f;
}

}  // namespace npu::golden
