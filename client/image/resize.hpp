// Pillow's antialiased bilinear resize of a part of a picture, to the bit: a triangle widened by
// the scale, 22-bit coefficients, rows first with an 8-bit intermediate, then columns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "client/image/coefficients.hpp"
#include "client/image/types.hpp"

namespace npu::image {

struct ResizeKernels;

/// `from` of the picture is scaled to `to`, of which `window` is wanted. The window may reach
/// beyond the scaled picture: zeros there, as torchvision's center_crop pads.
struct ResizePlan {
  Box from;    ///< pixels of the picture; nothing outside takes part
  Size to;     ///< what they become
  Box window;  ///< pixels of that
};

/// RandomResizedCrop: all of `crop` to `to`.
[[nodiscard]] constexpr ResizePlan resize_crop(const Box& crop, Size to) noexcept {
  return {crop, to, whole(to)};
}

/// The pixels of the picture that the plan reads: what to ask Decoder::decode for. Empty (height
/// 0) if the window lies wholly outside.
[[nodiscard]] Box needed(const ResizePlan& plan);

/// Keeps coefficient tables and the intermediate between calls. Thread: one at a time.
class Resizer {
 public:
  Resizer();  ///< the fastest kernels of this machine
  explicit Resizer(const ResizeKernels& kernels) noexcept;

  /// Writes window.height x window.width x image.channels bytes to `out` (exactly that long).
  /// `image.region` must cover needed(plan), channels 1 or 3: a breach aborts.
  /// Source: matches PIL.Image.crop(from).resize(to, BILINEAR).crop(window), Pillow 9.4.
  void resize(const Image& image, const ResizePlan& plan, std::span<uint8_t> out);

 private:
  const ResizeKernels* kernels_;
  Coefficients columns_;
  Coefficients rows_;
  std::vector<uint8_t> narrow_;  // the intermediate: window columns of the rows needed
};

/// TensorFlow's bilinear resize of old, output i at i * scale of the input, no antialias, computed
/// and kept in fp32: out is window.height x window.width x channels floats in 0..255.
/// Source: matches tf.compat.v1.image.resize(method=BILINEAR, align_corners=False), which the
/// official ResNet's preprocessing calls; tf.image.resize of TF2 has half-pixel centres instead.
void resize_tf(const Image& image, const ResizePlan& plan, std::span<float> out);
/// As needed(), for resize_tf.
[[nodiscard]] Box needed_tf(const ResizePlan& plan);

}  // namespace npu::image
