// Rows of samples to rows of RGB, with Pillow's arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace npu::image {

/// 256 RGB entries; what a file leaves out stays a grey ramp, as in Pillow.
using Palette = std::array<std::array<uint8_t, 3>, 256>;
[[nodiscard]] Palette grey_ramp() noexcept;

/// `step` bytes from one pixel's sample to the next one's.
void grey_to_rgb(const uint8_t* in, size_t step, size_t pixels, uint8_t* rgb) noexcept;
void palette_to_rgb(const uint8_t* in, const Palette& palette, size_t pixels,
                    uint8_t* rgb) noexcept;
/// Source: Pillow Convert.c cmyk2rgb; `inverted` as Adobe stores it in JPEG.
void cmyk_to_rgb(const uint8_t* cmyk, bool inverted, size_t pixels, uint8_t* rgb) noexcept;
/// Samples of 1, 2 or 4 bits, first one in the highest bits, to a byte each (not scaled).
void unpack_bits(const uint8_t* in, int bits, size_t samples, uint8_t* out) noexcept;

}  // namespace npu::image
