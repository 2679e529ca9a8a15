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

/// The table as the kernels read it: plain data, because inline functions shared with a file
/// compiled for a newer CPU could end up in everybody's program.
struct Weights {
  int count;            ///< outputs
  int width;            ///< weights kept for each of them, a multiple of 4
  const int* begin;     ///< first input of an output
  const int* taps;      ///< inputs of an output; weights behind them are 0
  const int16_t* high;  ///< count x width
  const int16_t* low;
};

/// Invariant: 0 <= begin[i], begin[i] + taps[i] <= axis.in. Thread: one at a time.
class Coefficients {
 public:
  /// Fills the table; does nothing if it is that of `axis` already.
  /// Source: Pillow 9.4 precompute_coeffs and normalize_coeffs_8bpc, triangle filter.
  Weights prepare(const Axis& axis);

 private:
  [[nodiscard]] Weights view() const noexcept;
  void fill(size_t i, int output);

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
