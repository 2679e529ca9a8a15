// The kernels compiled for AVX-512 F, BW, DQ and VL.
// Everything here has internal linkage or the namespace of this instruction set: see README.md.
#include <immintrin.h>

#include "daemon/collectives/kernels/kernel_table.hpp"

#define NPU_KERNEL_ISA kernels_avx512
#define NPU_KERNEL_BYTES 64

// The order matters: each part uses the ones before it.
// clang-format off
#include "daemon/collectives/kernels/vectors.inc"
#include "daemon/collectives/kernels/simd_avx512.inc"
#include "daemon/collectives/kernels/formats.inc"
#include "daemon/collectives/kernels/words.inc"
#include "daemon/collectives/kernels/operations.inc"
#include "daemon/collectives/kernels/fold_loops.inc"
#include "daemon/collectives/kernels/copy.inc"
#include "daemon/collectives/kernels/table.inc"
// clang-format on
