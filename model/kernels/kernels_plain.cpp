// The reference: baseline x86-64, always present.
#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLES kPlainKernels
#define NPU_KERNEL_NAME "plain"
#define NPU_KERNEL_LANES 4

namespace npu::model {
#include "model/kernels/kernels.inc"
}  // namespace npu::model
