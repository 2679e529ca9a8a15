#include "client/image/resize.hpp"

#include <algorithm>

#include "client/image/kernels/kernels.hpp"
#include "shm/base/error.hpp"

namespace npu::image {
namespace {

/// The part of the window that lies on the scaled picture; height or width 0 or less if none does.
Box on_picture(const ResizePlan& plan) noexcept {
  const int top = std::max(0, plan.window.top);
  const int left = std::max(0, plan.window.left);
  return {top, left, std::min(plan.to.height, plan.window.bottom()) - top,
          std::min(plan.to.width, plan.window.right()) - left};
}

Axis column_axis(const ResizePlan& plan, const Box& part) noexcept {
  return {plan.from.width, plan.to.width, part.left, part.width};
}
Axis row_axis(const ResizePlan& plan, const Box& part) noexcept {
  return {plan.from.height, plan.to.height, part.top, part.height};
}

}  // namespace

Box needed(const ResizePlan& plan) {
  const Box part = on_picture(plan);
  if (part.height <= 0 || part.width <= 0) return {plan.from.top, plan.from.left, 0, 0};
  const Reach rows = reach(row_axis(plan, part));
  const Reach columns = reach(column_axis(plan, part));
  return {plan.from.top + rows.begin, plan.from.left + columns.begin, rows.end - rows.begin,
          columns.end - columns.begin};
}

Resizer::Resizer() : kernels_(&default_resize_kernels()) {}
Resizer::Resizer(const ResizeKernels& kernels) noexcept : kernels_(&kernels) {}

void Resizer::resize(const Image& image, const ResizePlan& plan, std::span<uint8_t> out) {
  const auto channels = static_cast<size_t>(image.channels);
  const size_t out_stride = static_cast<size_t>(plan.window.width) * channels;
  NPU_CHECK(image.channels == 1 || image.channels == 3);
  NPU_CHECK(out.size() == out_stride * static_cast<size_t>(plan.window.height));
  const Box part = on_picture(plan);
  if (part != plan.window) std::fill(out.begin(), out.end(), uint8_t{0});
  if (part.height <= 0 || part.width <= 0) return;
  const Box source = needed(plan);
  NPU_CHECK_MSG(image.region.covers(source), "resize of pixels that were not decoded");

  const size_t row_bytes = static_cast<size_t>(part.width) * channels;
  const size_t narrow_stride = row_bytes + kRowSlack;
  narrow_.resize(std::max(narrow_.size(), narrow_stride * static_cast<size_t>(source.height)));
  const HorizontalArgs horizontal{image.at(source.top, source.left),
                                  image.stride(),
                                  source.height,
                                  columns_.prepare(column_axis(plan, part)),
                                  source.left - plan.from.left,
                                  narrow_.data(),
                                  narrow_stride};
  (channels == 3 ? kernels_->horizontal_rgb : kernels_->horizontal_grey)(horizontal);
  uint8_t* first = out.data() + static_cast<size_t>(part.top - plan.window.top) * out_stride +
                   static_cast<size_t>(part.left - plan.window.left) * channels;
  kernels_->vertical({narrow_.data(), narrow_stride, rows_.prepare(row_axis(plan, part)),
                      source.top - plan.from.top, row_bytes, first, out_stride});
}

}  // namespace npu::image
