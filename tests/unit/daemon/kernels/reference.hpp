// A scalar model of every reduction, written without looking at the kernels: conversions go through
// exact double arithmetic, folds through plain loops. Slow, and therefore easy to believe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shm/base/dtype.hpp"

namespace npu::daemon::testing {

using Bytes = std::vector<std::byte>;

/// What one reduction must produce.
struct Expected {
  Bytes result;
  std::vector<double> squares;  // per block of 4096
  bool input_nonfinite = false;
  bool result_nonfinite = false;
};

/// Folds `inputs` (each `count` elements) in ascending order.
[[nodiscard]] Expected reference_fold(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs,
                                      uint64_t count, double scale);

[[nodiscard]] float half_to_float(uint16_t bits);
[[nodiscard]] float bfloat_to_float(uint16_t bits);
/// Correct rounding (nearest even) of a double; NaN gives the canonical quiet NaN.
[[nodiscard]] uint16_t double_to_half(double value);
[[nodiscard]] uint16_t double_to_bfloat(double value);

/// How test data is made: values of similar size, or any bit pattern (NaN, infinities, subnormals
/// included).
enum class Fill : uint8_t { kModerate, kAnyBits };
[[nodiscard]] Bytes make_input(DType dtype, uint64_t count, Fill fill, uint64_t seed);

}  // namespace npu::daemon::testing
