// Which part of a picture is looked at: the geometry of torchvision's and TensorFlow's ImageNet
// pipelines, without pixels. Draws come from a callable `uint32_t()` of 32 random bits, so that one
// code serves generators keyed by sample and the MT19937 of the golden values.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "client/image/types.hpp"

namespace npu::image {

template <typename G>
concept Draws = requires(G& g) {
  { g() } -> std::convertible_to<uint32_t>;
};

/// Uniform in [0, 1): the low 24 bits. Source: matches torch's CPU uniform_ for float.
[[nodiscard]] inline float unit_float(uint32_t draw) noexcept {
  return static_cast<float>(draw & 0xFFFFFFu) * 0x1p-24f;
}

/// Uniform in [from, to), one draw. Source: matches torch.empty(1).uniform_(from, to).
template <Draws G>
[[nodiscard]] float uniform(G& draw, float from, float to) {
  return unit_float(draw()) * (to - from) + from;
}

/// Uniform in 0..n-1, one draw. Source: matches torch.randint(0, n, (1,)).
template <Draws G>
[[nodiscard]] int below(G& draw, int n) {
  return static_cast<int>(static_cast<uint32_t>(draw()) % static_cast<uint32_t>(n));
}

/// True half the time, one draw. Source: matches torch.rand(1) < 0.5.
template <Draws G>
[[nodiscard]] bool flip(G& draw) {
  return unit_float(draw()) < 0.5f;
}

struct Range {
  double low;
  double high;
};
inline constexpr Range kCropArea{0.08, 1.0};
inline constexpr Range kCropAspect{3.0 / 4.0, 4.0 / 3.0};

/// One try: a box size of `area` x picture and `aspect`, or nothing if it does not fit.
[[nodiscard]] bool fit_crop(Size size, double area, double aspect, Box& out) noexcept;
/// The whole picture, cut to the nearest aspect in range, in the middle.
[[nodiscard]] Box fallback_crop(Size size, Range aspect) noexcept;
[[nodiscard]] float log_as_float(double x) noexcept;
[[nodiscard]] float exp_as_float(float x) noexcept;

/// Up to ten tries, then fallback_crop. Two draws a try, two more for the place.
/// Source: matches torchvision 0.14 RandomResizedCrop.get_params.
template <Draws G>
[[nodiscard]] Box random_resized_crop(Size size, G& draw, Range area = kCropArea,
                                      Range aspect = kCropAspect) {
  const float log_low = log_as_float(aspect.low);
  const float log_high = log_as_float(aspect.high);
  for (int i = 0; i < 10; ++i) {
    const float part = uniform(draw, static_cast<float>(area.low), static_cast<float>(area.high));
    const float ratio = exp_as_float(uniform(draw, log_low, log_high));
    Box box;
    if (!fit_crop(size, part, ratio, box)) continue;
    box.top = below(draw, size.height - box.height + 1);
    box.left = below(draw, size.width - box.width + 1);
    return box;
  }
  return fallback_crop(size, aspect);
}

/// Shorter side to `target`, the other one cut to an integer. Source: matches torchvision Resize.
[[nodiscard]] Size resize_shorter(Size size, int target) noexcept;

/// A `crop` in the middle; origins are halves rounded to even, or negative where the picture is
/// smaller (zeros belong there: see ResizePlan). Source: matches torchvision center_crop.
[[nodiscard]] Box center_crop(Size size, Size crop) noexcept;

// ---- profile tf ----

inline constexpr Range kTfCropArea{0.05, 1.0};
inline constexpr Range kTfCropAspect{0.75, 1.33};

/// Room for one try of the TensorFlow op: heights low..high at this aspect.
struct TfHeights {
  int low = 0;
  int high = 0;
};
[[nodiscard]] TfHeights tf_heights(Size size, float aspect, Range area) noexcept;
/// Box size for a drawn height, nudged by a pixel where rounding left the range; false: try again.
[[nodiscard]] bool tf_fit(Size size, float aspect, Range area, int height, Box& out) noexcept;

/// 100 tries, a tenth of the picture at least, then the whole picture.
/// Source: tf.image.sample_distorted_bounding_box with the whole picture as its only object; same
/// rules, other random numbers (TensorFlow's come from Philox).
template <Draws G>
[[nodiscard]] Box tf_distorted_crop(Size size, G& draw, Range area = kTfCropArea,
                                    Range aspect = kTfCropAspect) {
  constexpr double kMinCovered = 0.1;
  for (int i = 0; i < 100; ++i) {
    const float ratio =
        uniform(draw, static_cast<float>(aspect.low), static_cast<float>(aspect.high));
    const TfHeights heights = tf_heights(size, ratio, area);
    int height = heights.low;
    if (height < heights.high) height += below(draw, heights.high - height + 1);
    Box box;
    if (!tf_fit(size, ratio, area, height, box)) continue;
    if (box.height < size.height) box.top = below(draw, size.height - box.height);
    if (box.width < size.width) box.left = below(draw, size.width - box.width);
    const double covered = static_cast<double>(box.height) * box.width /
                           (static_cast<double>(size.height) * size.width);
    if (covered >= kMinCovered) return box;
  }
  return whole(size);
}

/// Shorter side to `target`, both sides cut to integers from fp32 products.
/// Source: official ResNet's _aspect_preserving_resize.
[[nodiscard]] Size tf_resize_shorter(Size size, int target) noexcept;
/// A `crop` in the middle, origin rounded down. Source: official ResNet's _central_crop.
[[nodiscard]] Box tf_central_crop(Size size, Size crop) noexcept;

}  // namespace npu::image
