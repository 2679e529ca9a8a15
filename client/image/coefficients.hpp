// The weights of a one-dimensional antialiased resize: for each output, where its window begins in
// the input and the 22-bit weights of the inputs in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npu::image {

inline constexpr int kPrecisionBits = 22;
/// Weights are split for 16-bit multipliers: weight = high * 2^15 + low, low in 0..2^15-1.
inline constexpr int kLowBits = 15;

/// Weights of outputs first..first+count-1 of an axis that goes from `in` to `out` elements.
struct Axis {
  int in = 0;
  int out = 0;
  int first = 0;
  int count = 0;

  bool operator==(const Axis&) const = default;
};

/// Invariant: 0 <= begin[i], begin[i] + taps(i) <= in; unused weights of an output are 0.
class Coefficients {
 public:
  /// Fills the table; does nothing if it is that of `axis` already.
  /// Source: Pillow 9.4 precompute_coeffs and normalize_coeffs_8bpc, triangle filter.
  void prepare(const Axis& axis);

  [[nodiscard]] int count() const noexcept { return axis_.count; }
  /// Weights kept for each output: a multiple of 4.
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int begin(int i) const noexcept { return begin_[static_cast<size_t>(i)]; }
  [[nodiscard]] int taps(int i) const noexcept { return taps_[static_cast<size_t>(i)]; }
  /// width() weights each.
  [[nodiscard]] const int16_t* high(int i) const noexcept { return high_.data() + offset(i); }
  [[nodiscard]] const int16_t* low(int i) const noexcept { return low_.data() + offset(i); }

 private:
  [[nodiscard]] size_t offset(int i) const noexcept {
    return static_cast<size_t>(i) * static_cast<size_t>(width_);
  }

  Axis axis_;
  int width_ = 0;
  std::vector<int> begin_;
  std::vector<int> taps_;
  std::vector<int16_t> high_;
  std::vector<int16_t> low_;
  std::vector<double> weights_;  // of one output, scratch
};

/// The inputs that outputs first..first+count-1 look at: [begin, end).
struct Reach {
  int begin = 0;
  int end = 0;
};
[[nodiscard]] Reach reach(const Axis& axis);

}  // namespace npu::image
