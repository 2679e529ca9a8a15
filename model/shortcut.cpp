// Plain loops: together well under one percent of a step.
#include "model/shortcut.hpp"

#include <algorithm>

namespace npu::model {
namespace {

/// Calls body(in_offset, out_offset) for each output pixel.
template <typename Body>
void each_pixel(const OptionA& g, int n, const Body& body) {
  const auto in_c = static_cast<size_t>(g.in_c);
  const auto out_c = static_cast<size_t>(g.out_c);
  size_t out = 0;
  for (int image = 0; image < n; ++image) {
    for (int h = 0; h < g.out_h; ++h) {
      for (int w = 0; w < g.out_w; ++w) {
        const auto pixel = static_cast<size_t>((image * g.in_h + 2 * h) * g.in_w + 2 * w);
        body(pixel * in_c, out);
        out += out_c;
      }
    }
  }
}

}  // namespace

void option_a_forward(const OptionA& g, const float* in, int n, float* out) {
  const auto in_c = static_cast<size_t>(g.in_c);
  const auto out_c = static_cast<size_t>(g.out_c);
  const size_t side = (out_c - in_c) / 2;
  each_pixel(g, n, [&](size_t from, size_t to) {
    std::fill_n(out + to, side, 0.0F);
    std::copy_n(in + from, in_c, out + to + side);
    std::fill_n(out + to + side + in_c, out_c - side - in_c, 0.0F);
  });
}

void option_a_backward(const OptionA& g, const float* dout, int n, float* dx) {
  const auto in_c = static_cast<size_t>(g.in_c);
  const size_t side = static_cast<size_t>(g.out_c - g.in_c) / 2;
  each_pixel(g, n, [&](size_t to, size_t from) {
    const float* source = dout + from + side;
    float* target = dx + to;
    for (size_t c = 0; c < in_c; ++c) {
      target[c] += source[c];
    }
  });
}

void average_pool_forward(const float* z, int n, size_t pixels, size_t channels, float* features) {
  const float factor = 1.0F / static_cast<float>(pixels);
  for (int image = 0; image < n; ++image) {
    float* out = features + static_cast<size_t>(image) * channels;
    std::fill_n(out, channels, 0.0F);
    for (size_t p = 0; p < pixels; ++p, z += channels) {
      for (size_t c = 0; c < channels; ++c) {
        out[c] += z[c];
      }
    }
    for (size_t c = 0; c < channels; ++c) {
      out[c] *= factor;
    }
  }
}

void average_pool_backward(const float* dfeatures, int n, size_t pixels, size_t channels,
                           float* dz) {
  const float factor = 1.0F / static_cast<float>(pixels);
  for (int image = 0; image < n; ++image) {
    const float* in = dfeatures + static_cast<size_t>(image) * channels;
    for (size_t c = 0; c < channels; ++c) {
      dz[c] = in[c] * factor;
    }
    for (size_t p = 1; p < pixels; ++p) {
      std::copy_n(dz, channels, dz + p * channels);
    }
    dz += pixels * channels;
  }
}

}  // namespace npu::model
