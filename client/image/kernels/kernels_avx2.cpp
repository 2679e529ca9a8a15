// Compiled with -mavx2; chosen at run time only where the CPU has it. 16-bit multiply-add takes two
// taps at a time, once with the high and once with the low part of the weights.
#include <immintrin.h>

#include <cstring>

#include "client/image/kernels/kernels.hpp"

namespace npu::image {
namespace {

__m256i load256(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

/// Weights 4t..4t+3 as (w0 w1) four times and (w2 w3) four times.
__m256i spread_weights(const int16_t* weights) {
  const __m256i order = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                         4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  int64_t four = 0;
  std::memcpy(&four, weights, sizeof(four));
  return _mm256_shuffle_epi8(_mm256_set1_epi64x(four), order);
}

/// Four RGB pixels as 16-bit pairs (r0 r1)(g0 g1)(b0 b1)(0 0) and the same of pixels 2 and 3.
__m256i spread_pixels(const uint8_t* p) {
  const __m256i order =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), order);
}

/// Sums of the two parts, before the halves of the register are added.
struct Sums {
  __m256i high = _mm256_setzero_si256();
  __m256i low = _mm256_setzero_si256();

  void add(__m256i pairs, __m256i high_weights, __m256i low_weights) {
    high = _mm256_add_epi32(high, _mm256_madd_epi16(pairs, high_weights));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(pairs, low_weights));
  }
  [[nodiscard]] __m256i joined() const {
    return _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
  }
  /// Rounded, not yet clipped: r, g, b, 0.
  [[nodiscard]] __m128i pixel() const {
    const __m256i both = joined();
    const __m128i sum =
        _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    const __m128i half = _mm_set1_epi32(1 << (kPrecisionBits - 1));
    return _mm_srai_epi32(_mm_add_epi32(sum, half), kPrecisionBits);
  }
};

/// kRows rows at a time, so that weights are spread once for all of them.
template <int kRows>
void horizontal_rows(const HorizontalArgs& a, int first) {
  const Weights& w = a.weights;
  const uint8_t* in = a.in + static_cast<size_t>(first) * a.in_stride;
  uint8_t* out = a.out + static_cast<size_t>(first) * a.out_stride;
  for (int x = 0; x < w.count; ++x, out += 3) {
    const uint8_t* pixels = in + static_cast<ptrdiff_t>(w.begin[x] - a.first) * 3;
    const int16_t* high = w.high + static_cast<ptrdiff_t>(x) * w.width;
    const int16_t* low = w.low + static_cast<ptrdiff_t>(x) * w.width;
    Sums sums[kRows];
    for (int t = 0; t < w.taps[x]; t += 4, pixels += 12) {
      const __m256i high_weights = spread_weights(high + t);
      const __m256i low_weights = spread_weights(low + t);
      for (int r = 0; r < kRows; ++r) {
        const uint8_t* p = pixels + static_cast<size_t>(r) * a.in_stride;
        sums[r].add(spread_pixels(p), high_weights, low_weights);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const __m128i words = _mm_packs_epi32(sums[r].pixel(), _mm_setzero_si128());
      const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
      // The fourth byte is overwritten by the next pixel, or is slack.
      std::memcpy(out + static_cast<size_t>(r) * a.out_stride, &bytes, sizeof(bytes));
    }
  }
}

void horizontal_rgb(const HorizontalArgs& a) {
  int y = 0;
  for (; y + 4 <= a.rows; y += 4) horizontal_rows<4>(a, y);
  for (; y < a.rows; ++y) horizontal_rows<1>(a, y);
}

/// 32 bytes of one output row.
__m256i vertical_block(const uint8_t* in, size_t stride, const int16_t* high, const int16_t* low,
                       int taps) {
  const __m256i zero = _mm256_setzero_si256();
  Sums sums[4];
  for (int t = 0; t < taps; t += 2, in += 2 * stride) {
    int32_t high_pair = 0;
    int32_t low_pair = 0;
    std::memcpy(&high_pair, high + t, sizeof(high_pair));
    std::memcpy(&low_pair, low + t, sizeof(low_pair));
    const __m256i high_weights = _mm256_set1_epi32(high_pair);
    const __m256i low_weights = _mm256_set1_epi32(low_pair);
    const __m256i upper = load256(in);
    // The weight behind the last tap is 0; its row may not exist.
    const __m256i lower = t + 1 < taps ? load256(in + stride) : upper;
    const __m256i even = _mm256_unpacklo_epi8(upper, lower);
    const __m256i odd = _mm256_unpackhi_epi8(upper, lower);
    sums[0].add(_mm256_unpacklo_epi8(even, zero), high_weights, low_weights);
    sums[1].add(_mm256_unpackhi_epi8(even, zero), high_weights, low_weights);
    sums[2].add(_mm256_unpacklo_epi8(odd, zero), high_weights, low_weights);
    sums[3].add(_mm256_unpackhi_epi8(odd, zero), high_weights, low_weights);
  }
  const __m256i half = _mm256_set1_epi32(1 << (kPrecisionBits - 1));
  __m256i values[4];
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_srai_epi32(_mm256_add_epi32(sums[i].joined(), half), kPrecisionBits);
  }
  // Packing undoes the order of unpacking, half by half.
  return _mm256_packus_epi16(_mm256_packs_epi32(values[0], values[1]),
                             _mm256_packs_epi32(values[2], values[3]));
}

void vertical(const VerticalArgs& a) {
  const Weights& w = a.weights;
  for (int y = 0; y < w.count; ++y) {
    const uint8_t* in = a.in + static_cast<size_t>(w.begin[y] - a.first) * a.in_stride;
    uint8_t* out = a.out + static_cast<size_t>(y) * a.out_stride;
    const ptrdiff_t at = static_cast<ptrdiff_t>(y) * w.width;
    for (size_t i = 0; i < a.row_bytes; i += 32) {
      const __m256i block = vertical_block(in + i, a.in_stride, w.high + at, w.low + at, w.taps[y]);
      if (i + 32 <= a.row_bytes) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), block);
      } else {
        alignas(32) uint8_t last[32];
        _mm256_store_si256(reinterpret_cast<__m256i*>(last), block);
        std::memcpy(out + i, last, a.row_bytes - i);
      }
    }
  }
}

}  // namespace

void horizontal_grey_plain(const HorizontalArgs& a);  // kernels_plain.cpp: grey is rare

extern constinit const ResizeKernels kAvx2Resize = {"avx2", horizontal_rgb, horizontal_grey_plain,
                                                    vertical};

}  // namespace npu::image
