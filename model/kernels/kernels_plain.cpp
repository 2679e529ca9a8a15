// The reference: baseline x86-64, always present.
#include "model/kernels/kernels.hpp"

#define NPU_KERNEL_TABLE kPlainKernels
#define NPU_KERNEL_NAME "plain"

namespace npu::model {
#include "model/kernels/kernels.inc"
}  // namespace npu::model
