#include "client/image/colour.hpp"

namespace npu::image {
namespace {

/// a * b / 255 rounded, without a division. Source: Pillow ImagingUtils.h MULDIV255.
constexpr unsigned mul_div_255(unsigned a, unsigned b) noexcept {
  const unsigned t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

}  // namespace

Palette grey_ramp() noexcept {
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<uint8_t>(i));
  return palette;
}

void grey_to_rgb(const uint8_t* in, size_t step, size_t pixels, uint8_t* rgb) noexcept {
  for (size_t i = 0; i < pixels; ++i) {
    rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = in[i * step];
  }
}

void palette_to_rgb(const uint8_t* in, const Palette& palette, size_t pixels,
                    uint8_t* rgb) noexcept {
  for (size_t i = 0; i < pixels; ++i) {
    const auto& entry = palette[in[i]];
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = entry[c];
  }
}

void cmyk_to_rgb(const uint8_t* cmyk, bool inverted, size_t pixels, uint8_t* rgb) noexcept {
  const uint8_t flip = inverted ? 0xFF : 0;
  for (size_t i = 0; i < pixels; ++i) {
    const unsigned white = 255u - static_cast<uint8_t>(cmyk[4 * i + 3] ^ flip);
    for (size_t c = 0; c < 3; ++c) {
      const unsigned ink = static_cast<uint8_t>(cmyk[4 * i + c] ^ flip);
      rgb[3 * i + c] = static_cast<uint8_t>(white - mul_div_255(ink, white));
    }
  }
}

void unpack_bits(const uint8_t* in, int bits, size_t samples, uint8_t* out) noexcept {
  const size_t per_byte = 8u / static_cast<unsigned>(bits);
  const unsigned mask = (1u << bits) - 1;
  for (size_t i = 0; i < samples; ++i) {
    const auto shift =
        static_cast<unsigned>(8 - bits) - static_cast<unsigned>(bits) * (i % per_byte);
    out[i] = static_cast<uint8_t>((in[i / per_byte] >> shift) & mask);
  }
}

}  // namespace npu::image
