// TensorFlow's ResizeBilinear with half_pixel_centers=false: four neighbours, no antialias, fp32.
#include <algorithm>
#include <array>
#include <cmath>

#include "client/image/resize.hpp"
#include "shm/base/error.hpp"

namespace npu::image {
namespace {

/// Two neighbours of an output on one axis, and how far it lies towards the second.
struct Neighbours {
  int lower;
  int upper;
  float share;
};

Neighbours neighbours(int output, int in, int out) noexcept {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const float at = static_cast<float>(output) * scale;
  const float below = std::floor(at);
  // Rounding may take the last ones a little beyond the end.
  return {std::clamp(static_cast<int>(below), 0, in - 1),
          std::min(in - 1, static_cast<int>(std::ceil(at))), at - below};
}

float between(uint8_t first, uint8_t second, float share) noexcept {
  return static_cast<float>(first) +
         (static_cast<float>(second) - static_cast<float>(first)) * share;
}

Reach reach_tf(int in, int out, int first, int end) noexcept {
  const int begin = std::max(0, first);
  const int last = std::min(out, end) - 1;
  if (last < begin) return {};
  return {neighbours(begin, in, out).lower, neighbours(last, in, out).upper + 1};
}

/// Columns whose neighbours are kept at a time: on the stack, as this runs for every picture.
constexpr int kBlock = 256;

/// Columns left..right-1 of the scaled picture, at most kBlock of them, of all rows.
void resize_columns(const Image& image, const ResizePlan& plan, int left, int right,
                    std::span<float> out) noexcept {
  const auto channels = static_cast<size_t>(image.channels);
  const ptrdiff_t shift = plan.from.left - image.region.left;
  const size_t out_stride = static_cast<size_t>(plan.window.width) * channels;
  std::array<Neighbours, kBlock> block;
  const auto columns = std::span(block).first(static_cast<size_t>(right - left));
  for (int x = left; x < right; ++x) {
    columns[static_cast<size_t>(x - left)] = neighbours(x, plan.from.width, plan.to.width);
  }
  for (int y = std::max(0, plan.window.top); y < std::min(plan.to.height, plan.window.bottom());
       ++y) {
    const Neighbours rows = neighbours(y, plan.from.height, plan.to.height);
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

}  // namespace

Box needed_tf(const ResizePlan& plan) {
  const Reach rows =
      reach_tf(plan.from.height, plan.to.height, plan.window.top, plan.window.bottom());
  const Reach columns =
      reach_tf(plan.from.width, plan.to.width, plan.window.left, plan.window.right());
  if (rows.end == 0 || columns.end == 0) return {plan.from.top, plan.from.left, 0, 0};
  return {plan.from.top + rows.begin, plan.from.left + columns.begin, rows.end - rows.begin,
          columns.end - columns.begin};
}

void resize_tf(const Image& image, const ResizePlan& plan, std::span<float> out) {
  const auto channels = static_cast<size_t>(image.channels);
  NPU_CHECK(out.size() == channels * static_cast<size_t>(plan.window.width) *
                              static_cast<size_t>(plan.window.height));
  NPU_CHECK_MSG(image.region.covers(needed_tf(plan)), "resize of pixels that were not decoded");
  std::fill(out.begin(), out.end(), 0.0f);
  const int end = std::min(plan.to.width, plan.window.right());
  for (int x = std::max(0, plan.window.left); x < end; x += kBlock) {
    resize_columns(image, plan, x, std::min(end, x + kBlock), out);
  }
}

}  // namespace npu::image
