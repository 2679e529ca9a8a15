// The per-channel arithmetic of batch norm, in double: a few thousand values a layer.
#include "model/batch_norm.hpp"

#include <algorithm>
#include <cmath>

namespace npu::model {
namespace {

/// Repeats the first `channels` values up to `width`.
void repeat(float* vector, size_t channels, size_t width) {
  for (size_t at = channels; at < width; at += channels) {
    std::copy_n(vector, channels, vector + at);
  }
}

}  // namespace

void BatchNorm::begin_forward(const float* row) {
  std::copy_n(row, channels, mean);
  repeat(mean, channels, width);
  std::fill_n(sum, channels, 0.0);
  std::fill_n(square, channels, 0.0);
}

void BatchNorm::finish_forward(uint64_t count) {
  const auto n = static_cast<double>(count);
  for (size_t i = 0; i < channels; ++i) {
    const double offset = sum[i] / n;
    const double average = static_cast<double>(mean[i]) + offset;
    // A NaN must stay one: std::max(0, nan) would hide it.
    const double raw = square[i] / n - offset * offset;
    const double variance = raw < 0 ? 0 : raw;
    inv_std[i] = 1 / std::sqrt(variance + kBnEps);
    const double factor = inv_std[i] * static_cast<double>(weight[i]);
    mean[i] = static_cast<float>(average);
    scale[i] = static_cast<float>(factor);
    shift[i] = static_cast<float>(static_cast<double>(bias[i]) - average * factor);
    running_mean[i] = static_cast<float>((1 - kBnMomentum) * static_cast<double>(running_mean[i]) +
                                         kBnMomentum * average);
    running_var[i] = static_cast<float>((1 - kBnMomentum) * static_cast<double>(running_var[i]) +
                                        kBnMomentum * variance * n / (n - 1));
  }
  repeat(mean, channels, width);
  repeat(scale, channels, width);
  repeat(shift, channels, width);
}

void BatchNorm::use_running() {
  for (size_t i = 0; i < channels; ++i) {
    const double factor =
        static_cast<double>(weight[i]) / std::sqrt(static_cast<double>(running_var[i]) + kBnEps);
    scale[i] = static_cast<float>(factor);
    shift[i] = static_cast<float>(static_cast<double>(bias[i]) -
                                  static_cast<double>(running_mean[i]) * factor);
  }
  repeat(scale, channels, width);
  repeat(shift, channels, width);
}

void BatchNorm::begin_backward() {
  std::fill_n(sum, channels, 0.0);
  std::fill_n(square, channels, 0.0);
}

void BatchNorm::finish_parameters() {
  for (size_t i = 0; i < channels; ++i) {
    weight_gradient[i] = static_cast<float>(square[i] * inv_std[i]);
    bias_gradient[i] = static_cast<float>(sum[i]);
  }
}

void BatchNorm::finish_input(uint64_t count) {
  const auto n = static_cast<double>(count);
  for (size_t i = 0; i < channels; ++i) {
    const double factor = inv_std[i] * static_cast<double>(weight[i]);
    a[i] = static_cast<float>(factor);
    b[i] = static_cast<float>(-factor * inv_std[i] * inv_std[i] * square[i] / n);
    c[i] = static_cast<float>(-factor * sum[i] / n);
  }
  repeat(a, channels, width);
  repeat(b, channels, width);
  repeat(c, channels, width);
}

}  // namespace npu::model
