#include "client/image/crop.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace npu::image {
namespace {

/// Python's round(): halves to even.
int rounded(double x) noexcept { return static_cast<int>(std::nearbyint(x)); }
int rounded(float x) noexcept { return static_cast<int>(std::lrintf(x)); }

/// Cut to an integer; the longer side of a thread of pixels would leave its range.
int cut(double x) noexcept {
  return static_cast<int>(std::min(x, double{std::numeric_limits<int>::max()}));
}

/// Where a centred crop begins on one axis, as torchvision pads and cuts.
int centre_origin(int size, int crop) noexcept {
  return size < crop ? -((crop - size) / 2) : rounded((size - crop) / 2.0);
}

int floor_half(int x) noexcept { return x >= 0 ? x / 2 : -((1 - x) / 2); }

}  // namespace

float log_as_float(double x) noexcept { return std::log(static_cast<float>(x)); }
float exp_as_float(float x) noexcept { return std::exp(x); }

bool fit_crop(Size size, double area, double aspect, Box& out) noexcept {
  const double target = static_cast<double>(size.height) * size.width * area;
  const double width = std::nearbyint(std::sqrt(target * aspect));
  const double height = std::nearbyint(std::sqrt(target / aspect));
  if (!(width > 0 && width <= size.width && height > 0 && height <= size.height)) return false;
  out = {0, 0, static_cast<int>(height), static_cast<int>(width)};
  return true;
}

Box fallback_crop(Size size, Range aspect) noexcept {
  const double ratio = static_cast<double>(size.width) / size.height;
  int width = size.width;
  int height = size.height;
  if (ratio < aspect.low) {
    height = rounded(width / aspect.low);
  } else if (ratio > aspect.high) {
    width = rounded(height * aspect.high);
  }
  // A side of one pixel may round to nothing, or beyond the picture.
  width = std::clamp(width, 1, size.width);
  height = std::clamp(height, 1, size.height);
  return {(size.height - height) / 2, (size.width - width) / 2, height, width};
}

Size resize_shorter(Size size, int target) noexcept {
  const int shorter = std::min(size.width, size.height);
  const int longer = std::max(size.width, size.height);
  // Python divides integers exactly rounded, then truncates.
  const int other = cut(static_cast<double>(int64_t{target} * longer) / shorter);
  return size.width <= size.height ? Size{target, other} : Size{other, target};
}

Box center_crop(Size size, Size crop) noexcept {
  return {centre_origin(size.height, crop.height), centre_origin(size.width, crop.width),
          crop.height, crop.width};
}

TfHeights tf_heights(Size size, float aspect, Range area) noexcept {
  constexpr double kEps = 0.0000001;  // the op's own
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  const float least = static_cast<float>(area.low) * width * height;
  const float most = static_cast<float>(area.high) * width * height;
  int low = rounded(std::sqrt(least / aspect));
  int high = rounded(std::sqrt(most / aspect));
  if (rounded(static_cast<float>(high) * aspect) > size.width) {
    high = static_cast<int>((size.width + 0.5 - kEps) / static_cast<double>(aspect));
    if (rounded(static_cast<float>(high) * aspect) > size.width) --high;
  }
  high = std::min(high, size.height);
  low = std::min(low, high);
  return {low, high};
}

bool tf_fit(Size size, float aspect, Range area, int height, Box& out) noexcept {
  const auto side = static_cast<float>(size.width);
  const float least = static_cast<float>(area.low) * side * static_cast<float>(size.height);
  const float most = static_cast<float>(area.high) * side * static_cast<float>(size.height);
  const auto width_of = [aspect](int h) { return rounded(static_cast<float>(h) * aspect); };
  const auto area_of = [&](int h) {
    return static_cast<float>(static_cast<int64_t>(h) * width_of(h));
  };
  if (area_of(height) < least) ++height;
  if (area_of(height) > most) --height;
  const int width = width_of(height);
  const float covered = area_of(height);
  if (covered < least || covered > most || width > size.width || height > size.height ||
      width <= 0 || height <= 0) {
    return false;
  }
  out = {0, 0, height, width};
  return true;
}

Size tf_resize_shorter(Size size, int target) noexcept {
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  const float ratio = static_cast<float>(target) / std::min(width, height);
  return {cut(width * ratio), cut(height * ratio)};
}

Box tf_central_crop(Size size, Size crop) noexcept {
  return {floor_half(size.height - crop.height), floor_half(size.width - crop.width), crop.height,
          crop.width};
}

}  // namespace npu::image
