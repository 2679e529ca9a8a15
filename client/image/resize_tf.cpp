// TensorFlow's ResizeBilinear: four neighbours, no antialias, fp32.
#include <algorithm>
#include <cmath>
#include <vector>

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

float between(uint8_t first, uint8_t second, float share) noexcept {
  return static_cast<float>(first) +
         (static_cast<float>(second) - static_cast<float>(first)) * share;
}

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
  std::fill(out.begin(), out.end(), 0.0f);
  const int left = std::max(0, plan.window.left);
  const int right = std::min(plan.to.width, plan.window.right());
  std::vector<Neighbours> columns;
  for (int x = left; x < right; ++x) columns.emplace_back(x, plan.from.width, plan.to.width);
  const ptrdiff_t shift = plan.from.left - image.region.left;
  const size_t out_stride = static_cast<size_t>(plan.window.width) * channels;
  for (int y = std::max(0, plan.window.top); y < std::min(plan.to.height, plan.window.bottom());
       ++y) {
    const Neighbours rows(y, plan.from.height, plan.to.height);
    const uint8_t* top = image.at(plan.from.top + rows.lower, image.region.left);
    const uint8_t* bottom = image.at(plan.from.top + rows.upper, image.region.left);
    float* pixel = out.data() + static_cast<size_t>(y - plan.window.top) * out_stride +
                   static_cast<size_t>(left - plan.window.left) * channels;
    for (const Neighbours& column : columns) {
      const ptrdiff_t l = (column.lower + shift) * image.channels;
      const ptrdiff_t r = (column.upper + shift) * image.channels;
      for (ptrdiff_t c = 0; c < image.channels; ++c) {
        const float upper = between(top[l + c], top[r + c], column.share);
        const float lower = between(bottom[l + c], bottom[r + c], column.share);
        *pixel++ = upper + (lower - upper) * rows.share;
      }
    }
  }
}

}  // namespace npu::image
