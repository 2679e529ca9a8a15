// What an image is between its file and the network: a size, a box of pixels, a buffer of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npu::image {

struct Size {
  int width = 0;
  int height = 0;

  bool operator==(const Size&) const = default;
};

/// Pixels [top, top + height) x [left, left + width).
struct Box {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  bool operator==(const Box&) const = default;
  [[nodiscard]] constexpr int bottom() const noexcept { return top + height; }
  [[nodiscard]] constexpr int right() const noexcept { return left + width; }
  [[nodiscard]] constexpr Size size() const noexcept { return {width, height}; }
  [[nodiscard]] constexpr bool covers(const Box& other) const noexcept {
    return top <= other.top && left <= other.left && bottom() >= other.bottom() &&
           right() >= other.right();
  }
};

[[nodiscard]] constexpr Box whole(Size size) noexcept { return {0, 0, size.height, size.width}; }

/// Kernels may read (never use) up to this many bytes behind the last pixel.
inline constexpr size_t kSlackBytes = 64;

/// What a buffer keeps from picture to picture.
inline constexpr size_t kKeptBytes = size_t{64} << 20;

/// Before `buffer` is used for `bytes`: gives back what a rare huge picture made of it, which each
/// worker would else hold to the end. Its contents are lost then.
inline void give_back(std::vector<uint8_t>& buffer, size_t bytes) noexcept {
  if (buffer.capacity() > kKeptBytes && bytes <= kKeptBytes) std::vector<uint8_t>().swap(buffer);
}

/// Decoded pixels of one part of a picture: rows top to bottom, channels innermost, no gaps.
/// Invariant: pixels.size() >= region.height * stride() + kSlackBytes. Made to be reused: shape()
/// grows the buffer, and shrinks it only from above kKeptBytes.
struct Image {
  Box region;        ///< which pixels of the picture these are
  int channels = 3;  ///< 3 = R, G, B; 1 = grey
  std::vector<uint8_t> pixels;

  /// Sets region and channels and makes room; the pixels are unspecified.
  void shape(const Box& new_region, int new_channels) {
    region = new_region;
    channels = new_channels;
    const size_t need = static_cast<size_t>(region.height) * stride() + kSlackBytes;
    give_back(pixels, need);
    if (pixels.size() < need) pixels.resize(need);
  }
  [[nodiscard]] size_t stride() const noexcept {
    return static_cast<size_t>(region.width) * static_cast<size_t>(channels);
  }
  /// Row and column count in the picture, not in the region.
  [[nodiscard]] const uint8_t* at(int row, int column) const noexcept {
    return pixels.data() + static_cast<size_t>(row - region.top) * stride() +
           static_cast<size_t>(column - region.left) * static_cast<size_t>(channels);
  }
  [[nodiscard]] uint8_t* row(int row) noexcept {
    return pixels.data() + static_cast<size_t>(row - region.top) * stride();
  }
};

}  // namespace npu::image
