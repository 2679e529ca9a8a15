// The memory-bound passes between convolutions, over a (rows, channels) matrix with channels
// innermost. One source is compiled for plain x86-64, AVX2 and AVX-512; all of them give the same
// bits. What stays in memory between passes ("stored") is fp32, fp16 or bf16; what a convolution
// reads or has just written is fp32, in a scratch buffer that fits the cache.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Type of stored tensors. With a half type, arithmetic is fp32 and each value is rounded once, to
/// nearest even, when it is stored or handed to a convolution.
enum class Format : uint8_t { kFp32, kFp16, kBf16 };
inline constexpr size_t kFormats = 3;

[[nodiscard]] constexpr size_t format_bytes(Format format) noexcept {
  return format == Format::kFp32 ? 4 : 2;
}

/// v = x rounded to the format, stored in `keep` unless that is null (fp32: x is stored already);
/// sum += v - pivot, square += (v - pivot)^2, column by column, rows in ascending order.
struct MomentsArgs {
  const float* x;
  void* keep;  // stored
  const float* pivot;
  float* sum;
  float* square;
};

/// max(0, y*scale + shift + residual), rounded to the format, goes to `keep` and to `out`; either
/// may be null, and both may be y or the residual. Residual: none; stored; stored and normalised
/// (residual*residual_scale + residual_shift); or fp32.
struct NormaliseArgs {
  const void* y;  // stored
  const float* scale;
  const float* shift;
  const void* residual;         // stored, or null
  const float* residual_scale;  // or null
  const float* residual_shift;
  const float* residual_fp32;  // or null; only without `residual`
  void* keep;                  // stored
  float* out;
};

/// v = dz rounded to the format and stored in `keep`, or dz as it is when that is null;
/// g = v where y*scale + shift > 0, else 0; sum += g, dot += g*(y - mean).
struct ReduceArgs {
  const float* dz;
  void* keep;     // stored
  const void* y;  // stored
  const float* scale;
  const float* shift;
  const float* mean;
  float* sum;
  float* dot;
};

/// out = a*g + (b*(y - mean) + c) rounded to the format, the input gradient of batch norm; g = dz
/// where y*scale + shift > 0, else 0; or dz when scale is null. dz is stored, or fp32. The result goes to `keep`, or to
/// `out` when that is null.
struct BnBackwardArgs {
  const void* dz;        // stored, or null
  const float* dz_fp32;  // when dz is null; may be out
  const void* y;         // stored
  const float* scale;
  const float* shift;
  const float* mean;
  const float* a;
  const float* b;
  const float* c;
  void* keep;  // stored, or null
  float* out;
};

/// g = dx + add, rounded to the format, where z > 0, else 0, written to out; sum += g, dot += g*(y
/// - mean), and with y2 also dot2 += g*(y2 - mean2). `add` is stored, or fp32, or nothing.
struct JoinArgs {
  const float* dx;
  const void* add;        // stored, or null; may be out
  const float* add_fp32;  // or null; only without `add`
  const float* z;
  void* out;      // stored
  const void* y;  // stored
  const float* mean;
  float* sum;
  float* dot;
  const void* y2;  // stored, or null
  const float* mean2;
  float* dot2;
};

/// out = dx + add, rounded to the format: the join where no ReLU is in front. As in JoinArgs.
struct MergeArgs {
  const float* dx;
  const void* add;
  const float* add_fp32;
  void* out;
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

/// One compiled version of the passes for one format. Thread: every function is reentrant.
struct Kernels {
  std::string_view name;
  Format format;
  void (*moments)(const MomentsArgs&, Extent);
  void (*normalise)(const NormaliseArgs&, Extent);
  void (*reduce_masked)(const ReduceArgs&, Extent);
  void (*bn_backward)(const BnBackwardArgs&, Extent);
  void (*join)(const JoinArgs&, Extent);
  void (*merge)(const MergeArgs&, size_t count);
  void (*widen)(const void* stored, float* out, size_t count);
  void (*narrow)(const float* in, void* stored, size_t count);
  void (*round)(const float* in, float* out, size_t count);  // through the format; out may be in
  void (*add)(const float* a, const float* b, float* out, size_t count);  // out may be a or b
  void (*sgd)(const SgdArgs&, size_t count);
};

/// Versions this machine can run for `format`, fastest first; "plain" is last and always there.
[[nodiscard]] std::span<const Kernels* const> available_kernels(Format format = Format::kFp32);

/// The fastest one not above `cap` ("plain", "avx2", "avx512"); an empty or unknown cap means no
/// cap.
[[nodiscard]] const Kernels& select_kernels(std::string_view cap, Format format = Format::kFp32);

/// select_kernels with the environment variable NPU_KERNELS as the cap.
[[nodiscard]] const Kernels& default_kernels(Format format = Format::kFp32);

}  // namespace npu::model
