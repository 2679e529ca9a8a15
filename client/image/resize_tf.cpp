// TensorFlow's ResizeBilinear: four neighbours, no antialias, fp32.
#include <algorithm>
#include <cmath>

#include "client/image/resize.hpp"
#include "shm/base/error.hpp"

namespace npu::image {
namespace {

/// Two neighbours of an output on one axis, and how far it lies towards the second.
struct Neighbours {
  Neighbours(int output, int in, int out) noexcept {
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    const float at = (static_cast<float>(output) + 0.5f) * scale - 0.5f;
    const float below = std::floor(at);
    lower = std::max(0, static_cast<int>(below));
    upper = std::min(in - 1, static_cast<int>(std::ceil(at)));
    share = at - below;
  }
  int lower;
  int upper;
  float share;
};

Reach reach_tf(int in, int out, int first, int end) noexcept {
  const int begin = std::max(0, first);
  const int last = std::min(out, end) - 1;
  if (last < begin) return {};
  return {Neighbours(begin, in, out).lower, Neighbours(last, in, out).upper + 1};
}

}  // namespace

Box needed_tf(const ResizePlan& plan) {
  const Reach rows =
      reach_tf(plan.from.height, plan.to.height, plan.window.top, plan.window.bottom());
  const Reach columns =
      reach_tf(plan.from.width, plan.to.width, plan.window.left, plan.window.right());
  return {plan.from.top + rows.begin, plan.from.left + columns.begin, rows.end - rows.begin,
          columns.end - columns.begin};
}

void resize_tf(const Image& image, const ResizePlan& plan, std::span<float> out) {
  const auto channels = static_cast<size_t>(image.channels);
  NPU_CHECK(out.size() == channels * static_cast<size_t>(plan.window.width) *
                              static_cast<size_t>(plan.window.height));
  NPU_CHECK_MSG(image.region.covers(needed_tf(plan)), "resize of pixels that were not decoded");
  float* pixel = out.data();
  for (int y = plan.window.top; y < plan.window.bottom(); ++y) {
    const bool row_inside = y >= 0 && y < plan.to.height;
    const Neighbours rows(y, plan.from.height, plan.to.height);
    for (int x = plan.window.left; x < plan.window.right(); ++x, pixel += channels) {
      if (!row_inside || x < 0 || x >= plan.to.width) {
        std::fill_n(pixel, channels, 0.0f);
        continue;
      }
      const Neighbours columns(x, plan.from.width, plan.to.width);
      const int left = plan.from.left + columns.lower;
      const int right = plan.from.left + columns.upper;
      const uint8_t* top_left = image.at(plan.from.top + rows.lower, left);
      const uint8_t* top_right = image.at(plan.from.top + rows.lower, right);
      const uint8_t* bottom_left = image.at(plan.from.top + rows.upper, left);
      const uint8_t* bottom_right = image.at(plan.from.top + rows.upper, right);
      for (size_t c = 0; c < channels; ++c) {
        const float top = static_cast<float>(top_left[c]) +
                          static_cast<float>(top_right[c] - top_left[c]) * columns.share;
        const float bottom = static_cast<float>(bottom_left[c]) +
                             static_cast<float>(bottom_right[c] - bottom_left[c]) * columns.share;
        pixel[c] = top + (bottom - top) * rows.share;
      }
    }
  }
}

}  // namespace npu::image
