// Run-time choice among the compiled versions, fastest first.
#include <array>
#include <cstdlib>

#include "model/kernels/kernels.hpp"

namespace npu::model {

extern const Kernels kPlainKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

namespace {

struct Available {
  std::array<const Kernels*, 3> list{};
  size_t count = 0;
};

Available probe() {
  Available found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found.list[found.count++] = &kAvx512Kernels;
  }
  if (__builtin_cpu_supports("avx2")) {
    found.list[found.count++] = &kAvx2Kernels;
  }
#endif
  found.list[found.count++] = &kPlainKernels;
  return found;
}

int level(std::string_view name) {
  if (name == "plain") return 0;
  if (name == "avx2") return 1;
  return 2;
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const Available kFound = probe();
  return {kFound.list.data(), kFound.count};
}

const Kernels& select_kernels(std::string_view cap) {
  for (const Kernels* kernels : available_kernels()) {
    if (level(kernels->name) <= level(cap)) return *kernels;
  }
  return kPlainKernels;
}

const Kernels& default_kernels() {
  const char* cap = std::getenv("NPU_KERNELS");
  return select_kernels(cap == nullptr ? std::string_view{} : std::string_view{cap});
}

}  // namespace npu::model
