// The arithmetic of every reducing collective: fold the ranks' inputs in ascending rank order,
// element by element, and round once. Pure functions over plain memory: no shared state, no
// waiting, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shm/base/dtype.hpp"

namespace npu::daemon {

inline constexpr uint32_t kMaxFoldRanks = 8;

/// By-products are kept per block of this many elements, so that sums do not depend on slicing.
inline constexpr uint64_t kBlockElements = 4096;

/// What one pass learns beside the result.
struct ByProducts {
  bool input_nonfinite = false;   // some input element is NaN or infinite (float types only)
  bool result_nonfinite = false;  // some result element is (overflow of finite inputs included)
  double* block_sum_squares =
      nullptr;  // if set: one double per started block, of the rounded result
};

/// What a fold that overwrites its inputs keeps outside this process, so that another one can go on
/// if this one dies in the middle: the results of the group of elements whose stores have begun,
/// and which that is. All before it are stored everywhere, all behind it are whole inputs. Written
/// in program order: results, progress, stores.
struct FoldHold {
  uint64_t* progress = nullptr;  // hold_word; stored as one word
  std::byte* windows = nullptr;  // kHoldBytes
  uint32_t* flags = nullptr;     // 1: an input is not finite, 2: a result is not
  uint64_t first = 0;            // added to element numbers
};
inline constexpr uint64_t kHoldGroup = 256;  // bytes of one rank that are stored together, at most
inline constexpr uint64_t kHoldVector = 64;
inline constexpr uint64_t kHoldBytes = 2 * kHoldGroup + 3 * kHoldVector;

/// Elements from `element` on, `count` of them, whose results lie at `offset` of the windows.
[[nodiscard]] constexpr uint64_t hold_word(uint64_t element, uint64_t count,
                                           uint64_t offset) noexcept {
  return element << 24 | count << 12 | (offset / kHoldVector) << 1 | 1;
}
struct HeldGroup {
  uint64_t element, count, offset;
};
/// Nothing for 0: no store has begun.
[[nodiscard]] constexpr HeldGroup held_group(uint64_t word) noexcept {
  return {word >> 24, word >> 12 & 0xfff, (word >> 1 & 0x7ff) * kHoldVector};
}

/// One slice of a reduction: `ranks` inputs of `count` elements, result stored to every `dst`.
/// dst[j] may equal any src[i] exactly (in place); partial overlap is the caller's error.
/// mean: the fold is divided by `ranks` before rounding (power of two: multiplied by the exact
/// inverse). premulsum: every input is multiplied by `scale` in the accumulation type before it is
/// added. fp16/bf16 accumulate in fp32 (sum, mean, premulsum, prod); integers wrap; integer mean
/// truncates towards zero. max/min: a NaN in any input gives the quiet NaN at that element,
/// whatever the rank order; -0 < +0.
struct FoldSlice {
  const std::byte* const* src = nullptr;
  uint32_t ranks = 0;
  std::byte* const* dst = nullptr;
  uint32_t dst_count = 0;
  uint64_t count = 0;  // elements
  double scale = 1.0;
  /// Hint: results larger than the caches go around them. For out of place only; fenced before the
  /// fold returns. Ignored when a dst is not aligned to the vector or block_sum_squares is wanted.
  bool nontemporal = false;
  const FoldHold* hold = nullptr;  // in place only; with it nothing is stored around the caches
};

/// Kernels of one instruction set for one (dtype, op). All function pointers are non-null.
/// Pointers are aligned to the element size only. Every implementation gives the same bits.
struct ReduceKernel {
  /// `direct`: one pass, load N, fold, store M.
  void (*fold)(const FoldSlice&, ByProducts&) noexcept = nullptr;

  /// `ring`: the partial of a slice travels in an accumulator of `acc_size` bytes an element
  /// (fp16/bf16: fp32). begin+step*(ranks-1)+finish gives exactly fold's bits. The accumulator is
  /// opaque (max and min keep sort keys in it); one slice uses the same count throughout. Both
  /// return true when they saw a non-finite input, which only max and min look for: an infinity may
  /// not reach their result.
  bool (*begin)(std::byte* acc, const std::byte* src, uint64_t count,
                double scale) noexcept = nullptr;
  bool (*step)(std::byte* acc, const std::byte* src, uint64_t count,
               double scale) noexcept = nullptr;
  /// Applies the mean, rounds, stores to dst, sets result_nonfinite and the sums. For sum, mean,
  /// premulsum and prod a non-finite input always gives a non-finite result, so input_nonfinite
  /// needs the caller's scan_nonfinite over the inputs only when result_nonfinite was set (and
  /// before they are overwritten in place).
  void (*finish)(std::byte* dst, const std::byte* acc, uint64_t count, uint32_t ranks,
                 ByProducts&) noexcept = nullptr;
  /// True if any of `count` elements is NaN or infinite; false for integer types.
  bool (*scan_nonfinite)(const std::byte* src, uint64_t count) noexcept = nullptr;
  size_t acc_size = 0;
};

/// Order-independent fp16/bf16 sum and mean: fp64 accumulation (exact for up to 8192 fp16 addends),
/// rounded once.
enum class Accumulate : uint8_t { kDefault = 0, kStrict = 1 };

/// The fastest kernels this processor runs (AVX-512, AVX2+F16C, plain), capped by
/// NPU_KERNELS=plain|avx2|avx512. Thread: any; the choice is made once. Every dtype x op has a
/// kernel.
[[nodiscard]] const ReduceKernel& reduce_kernel(
    DType dtype, ReduceOp op, Accumulate accumulate = Accumulate::kDefault) noexcept;

/// A named level for tests and benches; null when the processor lacks it.
[[nodiscard]] const ReduceKernel* reduce_kernel_at(
    std::string_view level, DType dtype, ReduceOp op,
    Accumulate accumulate = Accumulate::kDefault) noexcept;

/// "avx512", "avx2" or "plain".
[[nodiscard]] std::string_view reduce_kernel_level() noexcept;

/// Copies for broadcast-like operations: one source to M destinations in one pass, with
/// non-temporal stores when `nontemporal` (the caller fences once per slice; this function does so
/// before returning).
void copy_slice(std::byte* const* dst, uint32_t dst_count, const std::byte* src, uint64_t bytes,
                bool nontemporal) noexcept;

}  // namespace npu::daemon
