// Pixels to network input: augmentation and normalisation in one pass, written straight to where
// the network reads. Randomness is keyed by (seed, epoch, sample): no rank, thread, batch or world
// size can change a pixel.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "client/data/dataset.hpp"
#include "config/job.hpp"

namespace npu::data {

inline constexpr int kCropPad = 4;

/// One sample's draw: where the crop starts in the padded image (0..2*kCropPad), and whether it is
/// mirrored. The middle (kCropPad, kCropPad, false) leaves the image as it is.
struct CropFlip {
  int top = kCropPad;
  int left = kCropPad;
  bool flip = false;

  bool operator==(const CropFlip&) const = default;
};

/// The draw of `sample` in `epoch`: both offsets uniform over 0..8, mirrored half the time.
[[nodiscard]] CropFlip draw_crop_flip(uint64_t seed, int epoch, uint64_t sample) noexcept;

/// Thread: any; const calls do not interfere.
class Augmenter {
 public:
  /// `kind` kNone or kCifar (pad 4 with zeros, random crop to the same size, horizontal flip).
  /// Aborts on kImagenet, which needs a picture (PictureSource). For validation pass kNone.
  Augmenter(ImageShape shape, const Normalization& normalization, config::Augment kind,
            uint64_t seed);

  /// Writes height x width x channels floats (channels innermost): ((x / scale) - mean) / stddev.
  /// Padding is zero before normalisation, as torchvision pads. Cost: one table look-up a value.
  void apply(std::span<const uint8_t> pixels, int epoch, uint64_t sample, float* out) const;

  /// The pass itself, with a given draw.
  void write(std::span<const uint8_t> pixels, const CropFlip& draw, float* out) const;

  [[nodiscard]] const ImageShape& shape() const noexcept { return shape_; }

 private:
  using Table = std::array<float, 256>;

  void write_row(const uint8_t* in, int first, int count, bool flip, float* out) const;

  ImageShape shape_;
  config::Augment kind_;
  uint64_t seed_;
  std::array<Table, kMaxChannels> table_{};
};

}  // namespace npu::data
