// The two passes of a resize, compiled for plain x86-64 and for AVX2; both give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "client/image/coefficients.hpp"

namespace npu::image {

/// Each of `rows` rows of `in` becomes weights.count pixels of `out`. Reads up to
/// kSlackBytes behind the last input; writes up to kRowSlack bytes behind each row.
struct HorizontalArgs {
  const uint8_t* in;
  size_t in_stride;
  int rows;
  Weights weights;  // begin counts from pixel `first` of the source's rows...
  int first;        // ...which is pixel 0 of `in`
  uint8_t* out;
  size_t out_stride;
};

/// weights.count rows of `row_bytes` each, from rows of `in`. Reads up to kRowSlack bytes
/// behind an input row; writes exactly the row.
struct VerticalArgs {
  const uint8_t* in;
  size_t in_stride;
  Weights weights;  // begin counts from row `first` of the source...
  int first;        // ...which is row 0 of `in`
  size_t row_bytes;
  uint8_t* out;
  size_t out_stride;
};

inline constexpr size_t kRowSlack = 32;

/// Thread: every function is reentrant.
struct ResizeKernels {
  std::string_view name;
  void (*horizontal_rgb)(const HorizontalArgs&);
  void (*horizontal_grey)(const HorizontalArgs&);
  void (*vertical)(const VerticalArgs&);
};

/// Versions this machine can run, fastest first; "plain" is last and always there.
[[nodiscard]] std::span<const ResizeKernels* const> available_resize_kernels();

/// The fastest one not above the environment variable NPU_KERNELS ("plain", "avx2", ...).
[[nodiscard]] const ResizeKernels& default_resize_kernels();

}  // namespace npu::image
