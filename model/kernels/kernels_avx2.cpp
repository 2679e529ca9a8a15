// Compiled with -mavx2; chosen at run time only where the CPU has it.
#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLE kAvx2Kernels
#define NPU_KERNEL_NAME "avx2"
#define NPU_KERNEL_LANES 8

namespace npu::model {
#include "model/kernels/kernels.inc"
}  // namespace npu::model
