// Batch norm as data: per-channel vectors that the fused passes read, and the few lines that make
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::model {

inline constexpr double kBnEps = 1e-5;
inline constexpr double kBnMomentum = 0.1;  // weight of the new value

/// Floats of one virtual row for `channels`: about 256, a multiple of the channel count.
[[nodiscard]] constexpr size_t virtual_width(size_t channels) {
  return channels >= 256 ? channels : channels * ((256 + channels - 1) / channels);
}

/// One layer. The memory belongs to the network; vectors of `width` repeat the channels.
/// Source: matches torch.nn.BatchNorm2d: biased variance, eps inside the root, running variance
/// n/(n-1).
struct BatchNorm {
  size_t channels = 0;
  size_t width = 0;

  float* weight = nullptr;  // [channels], and so the next three
  float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;

  float* mean = nullptr;  // [width]; the pivot while moments are summed
  float* scale = nullptr;
  float* shift = nullptr;
  float* a = nullptr;
  float* b = nullptr;
  float* c = nullptr;
  double* sum = nullptr;  // [channels]
  double* square = nullptr;
  double* inv_std = nullptr;

  static constexpr size_t kWideVectors = 6;
  static constexpr size_t kDoubleVectors = 3;

  /// Starts the sums of a forward pass; `row` is one pixel of the input, taken as the pivot: sums
  /// of x - pivot do not cancel when the mean is far from zero.
  void begin_forward(const float* row);
  /// Batch statistics of `count` rows into mean, scale and shift; updates the running statistics.
  void finish_forward(uint64_t count);
  /// Scale and shift from the running statistics.
  void use_running();
  void begin_backward();
  /// Parameter gradients from the sums.
  void finish_parameters();
  /// The a, b, c of the input gradient a*g + b*(y - mean) + c from the sums over `count` rows.
  void finish_input(uint64_t count);
  /// Both.
  void finish_backward(uint64_t count) {
    finish_parameters();
    finish_input(count);
  }
};

}  // namespace npu::model
