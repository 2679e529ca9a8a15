#include "client/image/coefficients.hpp"

#include <algorithm>
#include <cmath>

#include "shm/base/error.hpp"

namespace npu::image {
namespace {

constexpr double triangle(double x) noexcept {
  const double distance = x < 0 ? -x : x;
  return distance < 1.0 ? 1.0 - distance : 0.0;
}

/// The inputs around one output, and what its weights are computed from.
struct Window {
  Window(const Axis& axis, int output) {
    const double scale = static_cast<double>(axis.in) / axis.out;
    filter_scale = std::max(scale, 1.0);
    centre = (output + 0.5) * scale;
    begin = std::max(0, static_cast<int>(centre - filter_scale + 0.5));
    end = std::min(axis.in, static_cast<int>(centre + filter_scale + 0.5));
  }

  double filter_scale;  // also the support of the triangle
  double centre;
  int begin;
  int end;
};

constexpr int round_up(int x, int step) noexcept { return (x + step - 1) / step * step; }

}  // namespace

Weights Coefficients::prepare(const Axis& axis) {
  if (axis == axis_) return view();
  NPU_CHECK(axis.in > 0 && axis.out > 0 && axis.first >= 0 && axis.count > 0 &&
            axis.first + axis.count <= axis.out);
  axis_ = axis;
  const double scale = std::max(1.0, static_cast<double>(axis.in) / axis.out);
  width_ = round_up(static_cast<int>(std::ceil(scale)) * 2 + 1, 4);
  const auto count = static_cast<size_t>(axis.count);
  const auto width = static_cast<size_t>(width_);
  begin_.resize(count);
  taps_.resize(count);
  high_.assign(count * width, 0);
  low_.assign(count * width, 0);
  weights_.resize(width);
  for (size_t i = 0; i < count; ++i) fill(i, axis.first + static_cast<int>(i));
  return view();
}

Weights Coefficients::view() const noexcept {
  return {axis_.count, width_, begin_.data(), taps_.data(), high_.data(), low_.data()};
}

void Coefficients::fill(size_t i, int output) {
  const Window window(axis_, output);
  const int taps = window.end - window.begin;
  const double narrowing = 1.0 / window.filter_scale;
  double sum = 0;
  for (int x = 0; x < taps; ++x) {
    const double weight = triangle((x + window.begin - window.centre + 0.5) * narrowing);
    weights_[static_cast<size_t>(x)] = weight;
    sum += weight;
  }
  begin_[i] = window.begin;
  taps_[i] = taps;
  const size_t at = i * static_cast<size_t>(width_);
  for (int x = 0; x < taps; ++x) {
    const auto tap = static_cast<size_t>(x);
    const double share = sum != 0 ? weights_[tap] / sum : weights_[tap];
    const int weight = static_cast<int>(0.5 + share * (1 << kPrecisionBits));
    high_[at + tap] = static_cast<int16_t>(weight >> kLowBits);
    low_[at + tap] = static_cast<int16_t>(weight & ((1 << kLowBits) - 1));
  }
}

Reach reach(const Axis& axis) {
  return {Window(axis, axis.first).begin, Window(axis, axis.first + axis.count - 1).end};
}

}  // namespace npu::image
