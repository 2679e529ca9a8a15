// The small data movements around the residual blocks that are not sums over rows: the
// parameter-free shortcut (option A) and the global average pooling.
#pragma once

#include <cstddef>

namespace npu::model {

/// Geometry of an option A shortcut: every second pixel, the channels centred among twice as many.
struct OptionA {
  int in_h = 0;
  int in_w = 0;
  int in_c = 0;
  int out_h = 0;
  int out_w = 0;
  int out_c = 0;
};

/// out[n, out_h, out_w, out_c] = in at (2h, 2w), zero channels on both sides ((out_c - in_c)/2
/// each).
void option_a_forward(const OptionA& g, const float* in, int n, float* out);

/// dx[n, in_h, in_w, in_c] += the gradient that comes through the shortcut.
void option_a_backward(const OptionA& g, const float* dout, int n, float* dx);

/// features[n, channels] = mean over `pixels` of z.
void average_pool_forward(const float* z, int n, size_t pixels, size_t channels, float* features);

/// dz[n, pixels, channels] = dfeatures / pixels.
void average_pool_backward(const float* dfeatures, int n, size_t pixels, size_t channels,
                           float* dz);

}  // namespace npu::model
