// Compiled with -mavx512f/bw/dq/vl; chosen at run time only where the CPU has them.
#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLE kAvx512Kernels
#define NPU_KERNEL_NAME "avx512"
#define NPU_KERNEL_LANES 16

namespace npu::model {
#include "model/kernels/kernels.inc"
}  // namespace npu::model
