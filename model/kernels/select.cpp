// Run-time choice among the compiled versions, fastest first.
#include <array>
#include <cstdlib>

#include "model/kernels/kernels.hpp"

namespace npu::model {

extern const Kernels kPlainKernels[kFormats];
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels[kFormats];
extern const Kernels kAvx512Kernels[kFormats];
#endif

namespace {

struct Available {
  std::array<const Kernels*, 3> list{};
  size_t count = 0;
};

Available probe(Format format) {
  const auto at = static_cast<size_t>(format);
  Available found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found.list[found.count++] = &kAvx512Kernels[at];
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    found.list[found.count++] = &kAvx2Kernels[at];
  }
#endif
  found.list[found.count++] = &kPlainKernels[at];
  return found;
}

int level(std::string_view name) {
  if (name == "plain") return 0;
  if (name == "avx2") return 1;
  return 2;
}

}  // namespace

std::span<const Kernels* const> available_kernels(Format format) {
  static const std::array<Available, kFormats> kFound = {probe(Format::kFp32), probe(Format::kFp16),
                                                         probe(Format::kBf16)};
  const Available& found = kFound[static_cast<size_t>(format)];
  return {found.list.data(), found.count};
}

const Kernels& select_kernels(std::string_view cap, Format format) {
  for (const Kernels* kernels : available_kernels(format)) {
    if (level(kernels->name) <= level(cap)) return *kernels;
  }
  return kPlainKernels[static_cast<size_t>(format)];
}

const Kernels& default_kernels(Format format) {
  const char* cap = std::getenv("NPU_KERNELS");
  return select_kernels(cap == nullptr ? std::string_view{} : std::string_view{cap}, format);
}

}  // namespace npu::model
