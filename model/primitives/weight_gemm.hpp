// The weight gradient of a convolution as a matrix product: the pixels' input patches are gathered
// into rows ("im2col"), block by block in cache, and multiplied with the output gradient.
#pragma once

#include <cstdint>

#include "model/primitives/convolution.hpp"
#include "model/profile.hpp"

namespace npu::model {

/// gradient[out_c][kernel][kernel][in_c] += sum over pixels of diff_dst * patch. Thread: one call
/// at a time; uses the calling thread's OpenMP count. Cost: oneDNN's sgemm, which packs into memory
/// that it allocates, plus one copy of the patches. Source: im2col + GEMM as in Caffe.
class WeightGemm {
 public:
  /// True where this beats oneDNN's own kernel. Measured on Zen 3 (AVX2, one thread, Gflop/s of a
  /// peak of 100): 3x3 kernels on 32 channels or more 38-69 -> 70-88, strided 1x1 ones 45-52 ->
  /// 71-90, 1x1 ones from 512 to 1024 channels on 49-64 -> 72-90; 16 channels 75 -> 65. oneDNN's
  /// AVX-512 kernels are near the peak already.
  [[nodiscard]] static bool pays(const ConvShape& shape);

  explicit WeightGemm(const ConvShape& shape) : shape_(shape) {}

  [[nodiscard]] uint64_t gradient_bytes() const noexcept;
  /// Room for the gathered patches of one block; 0 when the input is read as it is.
  [[nodiscard]] uint64_t patch_bytes() const noexcept;

  /// Of one run; the gathered patches are not counted.
  [[nodiscard]] KernelWork work() const noexcept;

  /// Overwrites the gradient unless `accumulate`.
  void run(const float* src, const float* diff_dst, bool accumulate, float* gradient,
           float* patches) const;

 private:
  [[nodiscard]] bool reads_input() const noexcept {
    return shape_.kernel == 1 && shape_.stride == 1;
  }
  [[nodiscard]] int64_t patch_floats() const noexcept;
  [[nodiscard]] int64_t pixels() const noexcept;
  [[nodiscard]] int64_t block_pixels() const noexcept;
  void gather(const float* src, int64_t first, int64_t count, float* patches) const;
  void gather_row(const float* image, int y, int x, float* out) const;

  ConvShape shape_;
};

}  // namespace npu::model
