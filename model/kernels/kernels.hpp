// The memory-bound passes between convolutions, over a (rows, channels) matrix with channels
// innermost. One source is compiled for plain x86-64, AVX2 and AVX-512; all of them give the same
// bits.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace npu::model {

/// A matrix of `elements` floats in rows of `width`; the last row may be shorter. When there are
/// few channels, a row holds several pixels (width = channels * k) and per-channel vectors are
/// repeated k times, so that inner loops are long. All per-channel pointers below have `width`
/// elements.
struct Extent {
  size_t elements = 0;
  size_t width = 0;
};

/// sum += x - pivot, square += (x - pivot)^2, column by column, rows in ascending order.
struct MomentsArgs {
  const float* x;
  const float* pivot;
  float* sum;
  float* square;
};

/// out = max(0, y*scale + shift + residual). residual: none (null), as it is (residual_scale null),
/// or residual*residual_scale + residual_shift. out may be y or residual.
struct NormaliseArgs {
  const float* y;
  const float* scale;
  const float* shift;
  const float* residual;
  const float* residual_scale;
  const float* residual_shift;
  float* out;
};

/// g = dz where y*scale + shift > 0, else 0; sum += g, dot += g*(y - mean).
struct ReduceArgs {
  const float* dz;
  const float* y;
  const float* scale;
  const float* shift;
  const float* mean;
  float* sum;
  float* dot;
};

/// out = a*g + (b*(y - mean) + c), the input gradient of batch norm; g as above, or dz when scale
/// is null.
struct BnBackwardArgs {
  const float* dz;
  const float* y;
  const float* scale;
  const float* shift;
  const float* mean;
  const float* a;
  const float* b;
  const float* c;
  float* out;
};

/// g = dx + add where z > 0, else 0 (add may be null), written to out; sum += g, dot += g*(y -
/// mean), and with y2 also dot2 += g*(y2 - mean2). out may be dx or add.
struct JoinArgs {
  const float* dx;
  const float* add;
  const float* z;
  float* out;
  const float* y;
  const float* mean;
  float* sum;
  float* dot;
  const float* y2;
  const float* mean2;
  float* dot2;
};

/// One SGD update; `decay` already zero where it does not apply. tf: v = m*v - lr*g, p += v.
struct SgdArgs {
  float* parameters;
  float* momentum;
  const float* gradient;
  float lr;
  float mu;
  float decay;
  float gradient_scale;
  bool nesterov;
  bool tf;
};

/// One compiled version of the passes. Thread: every function is reentrant.
struct Kernels {
  std::string_view name;
  void (*moments)(const MomentsArgs&, Extent);
  void (*normalise)(const NormaliseArgs&, Extent);
  void (*reduce_masked)(const ReduceArgs&, Extent);
  void (*bn_backward)(const BnBackwardArgs&, Extent);
  void (*join)(const JoinArgs&, Extent);
  void (*add)(const float* a, const float* b, float* out, size_t count);  // out may be a or b
  void (*sgd)(const SgdArgs&, size_t count);
};

/// Versions this machine can run, fastest first; "plain" is last and always there.
[[nodiscard]] std::span<const Kernels* const> available_kernels();

/// The fastest one not above `cap` ("plain", "avx2", "avx512"); an empty or unknown cap means no
/// cap.
[[nodiscard]] const Kernels& select_kernels(std::string_view cap);

/// select_kernels with the environment variable NPU_KERNELS as the cap.
[[nodiscard]] const Kernels& default_kernels();

}  // namespace npu::model
