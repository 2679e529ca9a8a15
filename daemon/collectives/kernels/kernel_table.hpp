// What one instruction set offers: a table of kernels for every dtype and reduction, filled at
// compile time. Only the dispatcher and the per-ISA sources include this; it must stay free of
// inline code, because a function compiled with AVX flags could otherwise replace the plain one at
// link time.
#pragma once

#include "daemon/collectives/kernels/reduce_kernels.hpp"

namespace npu::daemon {

struct KernelTable {
  ReduceKernel kernels[kDTypeCount][kReduceOpCount];
  ReduceKernel strict[2][2];  // [fp16, bf16][sum, mean], fp64 accumulation
  void (*copy)(std::byte* const* dst, uint32_t dst_count, const std::byte* src, uint64_t bytes,
               bool nontemporal) noexcept;
};

namespace kernels_plain {
[[nodiscard]] const KernelTable& table() noexcept;
}
namespace kernels_avx2 {
[[nodiscard]] const KernelTable& table() noexcept;
}
namespace kernels_avx512 {
[[nodiscard]] const KernelTable& table() noexcept;
}

}  // namespace npu::daemon
