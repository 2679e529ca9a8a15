// Run-time choice among the compiled versions, fastest first.
#include <array>
#include <cstdlib>

#include "client/image/kernels/kernels.hpp"

namespace npu::image {

extern const ResizeKernels kPlainResize;
#if defined(__x86_64__)
extern const ResizeKernels kAvx2Resize;
#endif

namespace {

struct Available {
  std::array<const ResizeKernels*, 2> list{};
  size_t count = 0;
};

Available probe() {
  Available found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) found.list[found.count++] = &kAvx2Resize;
#endif
  found.list[found.count++] = &kPlainResize;
  return found;
}

}  // namespace

std::span<const ResizeKernels* const> available_resize_kernels() {
  static const Available kFound = probe();
  return {kFound.list.data(), kFound.count};
}

const ResizeKernels& default_resize_kernels() {
  const char* cap = std::getenv("NPU_KERNELS");
  if (cap != nullptr && std::string_view(cap) == "plain") return kPlainResize;
  return *available_resize_kernels().front();
}

}  // namespace npu::image
