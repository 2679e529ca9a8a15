// Chooses the kernel table once: the best instruction set the processor has, capped by NPU_KERNELS.
// Compiled without any instruction-set flags; the tables of other levels are never touched unless
// supported.
#include <cstdlib>

#include "daemon/collectives/kernels/kernel_table.hpp"

namespace npu::daemon {
namespace {

struct Level {
  std::string_view name;
  bool (*supported)() noexcept;
  const KernelTable& (*table)() noexcept;
};

bool has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool always() noexcept { return true; }

/// Fastest first; the last one runs everywhere.
constexpr Level kLevels[] = {{"avx512", has_avx512, kernels_avx512::table},
                             {"avx2", has_avx2, kernels_avx2::table},
                             {"plain", always, kernels_plain::table}};

const Level& choose() noexcept {
  const char* cap = std::getenv("NPU_KERNELS");
  const std::string_view wanted = cap == nullptr ? std::string_view{} : std::string_view{cap};
  bool known = false;
  for (const Level& level : kLevels) known = known || level.name == wanted;
  bool reached = !known;  // an unknown cap is no cap
  for (const Level& level : kLevels) {
    reached = reached || level.name == wanted;
    if (reached && level.supported()) return level;
  }
  return kLevels[std::size(kLevels) - 1];
}

const Level& chosen() noexcept {
  static const Level& level = choose();
  return level;
}

bool has_strict(DType dtype, ReduceOp op) noexcept {
  return (dtype == DType::kFloat16 || dtype == DType::kBFloat16) &&
         (op == ReduceOp::kSum || op == ReduceOp::kMean);
}

const ReduceKernel& pick(const KernelTable& table, DType dtype, ReduceOp op,
                         Accumulate accumulate) noexcept {
  if (accumulate == Accumulate::kStrict && has_strict(dtype, op)) {
    return table.strict[dtype == DType::kBFloat16 ? 1 : 0][op == ReduceOp::kMean ? 1 : 0];
  }
  return table.kernels[static_cast<size_t>(dtype)][static_cast<size_t>(op)];
}

}  // namespace

const ReduceKernel& reduce_kernel(DType dtype, ReduceOp op, Accumulate accumulate) noexcept {
  return pick(chosen().table(), dtype, op, accumulate);
}

const ReduceKernel* reduce_kernel_at(std::string_view name, DType dtype, ReduceOp op,
                                     Accumulate accumulate) noexcept {
  for (const Level& level : kLevels) {
    if (level.name == name && level.supported()) return &pick(level.table(), dtype, op, accumulate);
  }
  return nullptr;
}

std::string_view reduce_kernel_level() noexcept { return chosen().name; }

void copy_slice(std::byte* const* dst, uint32_t dst_count, const std::byte* src, uint64_t bytes,
                bool nontemporal) noexcept {
  chosen().table().copy(dst, dst_count, src, bytes, nontemporal);
}

}  // namespace npu::daemon
