// In place of daemon/collectives/kernels in a fuzz target: kernels that compute nothing and touch
// exactly the bytes that the real ones read and write, so that the address sanitizer sees a wrong
// range at once.
#include <cstring>

#include "daemon/collectives/kernels/reduce_kernels.hpp"

namespace npu::daemon {
namespace {

template <size_t kBytes>
bool read_all(const std::byte* src, uint64_t count) noexcept {
  std::byte all{};
  for (uint64_t i = 0; i < count * kBytes; ++i) all |= src[i];
  return all == std::byte{0xff};
}

void write_sums(ByProducts& products, uint64_t count) noexcept {
  if (products.block_sum_squares == nullptr) return;
  const uint64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  for (uint64_t b = 0; b < blocks; ++b) products.block_sum_squares[b] = 0;
}

template <size_t kBytes>
struct Touch {
  static void fold(const FoldSlice& slice, ByProducts& products) noexcept {
    for (uint32_t r = 0; r < slice.ranks; ++r)
      products.input_nonfinite |= read_all<kBytes>(slice.src[r], slice.count);
    for (uint32_t d = 0; d < slice.dst_count; ++d)
      std::memmove(slice.dst[d], slice.src[0], slice.count * kBytes);
    write_sums(products, slice.count);
  }
  static bool begin(std::byte* acc, const std::byte* src, uint64_t count, double) noexcept {
    std::memcpy(acc, src, count * kBytes);
    return false;
  }
  static bool step(std::byte* acc, const std::byte* src, uint64_t count, double) noexcept {
    for (uint64_t i = 0; i < count * kBytes; ++i) acc[i] ^= src[i];
    return false;
  }
  static void finish(std::byte* dst, const std::byte* acc, uint64_t count, uint32_t,
                     ByProducts& products) noexcept {
    std::memcpy(dst, acc, count * kBytes);
    write_sums(products, count);
  }
  static constexpr ReduceKernel kKernel{fold, begin, step, finish, read_all<kBytes>, kBytes};
};

const ReduceKernel& of_size(uint64_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return Touch<1>::kKernel;
    case 2:
      return Touch<2>::kKernel;
    case 4:
      return Touch<4>::kKernel;
    default:
      return Touch<8>::kKernel;
  }
}

}  // namespace

const ReduceKernel& reduce_kernel(DType dtype, ReduceOp, Accumulate) noexcept {
  return of_size(dtype_size(dtype));
}

const ReduceKernel* reduce_kernel_at(std::string_view, DType, ReduceOp, Accumulate) noexcept {
  return nullptr;
}

std::string_view reduce_kernel_level() noexcept { return "touching"; }

void copy_slice(std::byte* const* dst, uint32_t dst_count, const std::byte* src, uint64_t bytes,
                bool) noexcept {
  for (uint32_t d = 0; d < dst_count; ++d) std::memmove(dst[d], src, bytes);
}

}  // namespace npu::daemon
