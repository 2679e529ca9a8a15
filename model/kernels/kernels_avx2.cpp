// Compiled with -mavx2 -mf16c; chosen at run time only where the CPU has both.
#include <immintrin.h>

#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLES kAvx2Kernels
#define NPU_KERNEL_NAME "avx2"
#define NPU_KERNEL_LANES 8

#define NPU_KERNEL_F16C

namespace npu::model {
namespace {

using HardwareLanes = __m256;

inline HardwareLanes widen_fp16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// Stores v rounded and returns what was stored.
inline HardwareLanes store_fp16(uint16_t* p, HardwareLanes v) {
  const __m128i rounded = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), rounded);
  return _mm256_cvtph_ps(rounded);
}

}  // namespace

#include "model/kernels/kernels.inc"
}  // namespace npu::model
