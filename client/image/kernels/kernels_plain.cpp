// The reference: baseline x86-64, always present.
#include <algorithm>

#include "client/image/kernels/kernels.hpp"

namespace npu::image {
namespace {

/// Weighted sum to a byte: rounded and clipped. Sums are modulo 2^32; the true one is in range.
uint8_t to_byte(uint32_t sum) noexcept {
  constexpr uint32_t kHalf = 1u << (kPrecisionBits - 1);
  const int32_t value = static_cast<int32_t>(sum + kHalf) >> kPrecisionBits;
  return static_cast<uint8_t>(std::clamp(value, 0, 255));
}

uint32_t weight(const Weights& w, int output, int tap) noexcept {
  const ptrdiff_t at = static_cast<ptrdiff_t>(output) * w.width + tap;
  return (static_cast<uint32_t>(w.high[at]) << kLowBits) + static_cast<uint32_t>(w.low[at]);
}

template <int kChannels>
void horizontal(const HorizontalArgs& a) {
  const Weights& w = a.weights;
  for (int y = 0; y < a.rows; ++y) {
    const uint8_t* in = a.in + static_cast<size_t>(y) * a.in_stride;
    uint8_t* out = a.out + static_cast<size_t>(y) * a.out_stride;
    for (int x = 0; x < w.count; ++x) {
      const uint8_t* pixel = in + static_cast<ptrdiff_t>(w.begin[x] - a.first) * kChannels;
      uint32_t sums[kChannels] = {};
      for (int t = 0; t < w.taps[x]; ++t) {
        const uint32_t tap = weight(w, x, t);
        for (int k = 0; k < kChannels; ++k) sums[k] += tap * *pixel++;
      }
      for (int k = 0; k < kChannels; ++k) *out++ = to_byte(sums[k]);
    }
  }
}

void vertical(const VerticalArgs& a) {
  const Weights& w = a.weights;
  for (int y = 0; y < w.count; ++y) {
    const uint8_t* in = a.in + static_cast<size_t>(w.begin[y] - a.first) * a.in_stride;
    uint8_t* out = a.out + static_cast<size_t>(y) * a.out_stride;
    for (size_t i = 0; i < a.row_bytes; ++i) {
      uint32_t sum = 0;
      for (int t = 0; t < w.taps[y]; ++t) {
        sum += weight(w, y, t) * in[static_cast<size_t>(t) * a.in_stride + i];
      }
      out[i] = to_byte(sum);
    }
  }
}

}  // namespace

void horizontal_grey_plain(const HorizontalArgs& a) { horizontal<1>(a); }

// Constant-initialised: another file's initialisers may resize already.
extern constinit const ResizeKernels kPlainResize = {"plain", horizontal<3>, horizontal_grey_plain,
                                                     vertical};

}  // namespace npu::image
