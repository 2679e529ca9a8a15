// Compiled with -mavx512f/bw/dq/vl; chosen at run time only where the CPU has them.
#include <immintrin.h>

#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLES kAvx512Kernels
#define NPU_KERNEL_NAME "avx512"
#define NPU_KERNEL_LANES 16

#define NPU_KERNEL_F16C

namespace npu::model {
namespace {

using HardwareLanes = __m512;

// Masked forms with all lanes on: the plain ones make GCC 12 warn of an undefined operand.
constexpr __mmask16 kAll = 0xffff;

inline HardwareLanes widen_fp16(const uint16_t* p) {
  return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// Stores v rounded and returns what was stored.
inline HardwareLanes store_fp16(uint16_t* p, HardwareLanes v) {
  const __m256i rounded =
      _mm512_maskz_cvtps_ph(kAll, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
  return _mm512_maskz_cvtph_ps(kAll, rounded);
}

}  // namespace

#include "model/kernels/kernels.inc"
}  // namespace npu::model
