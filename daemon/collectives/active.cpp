#include "daemon/collectives/active.hpp"

namespace npu::daemon {
namespace {

uint32_t flag_bits(const ByProducts& products) noexcept {
  return (products.input_nonfinite ? 1u : 0u) | (products.result_nonfinite ? 2u : 0u);
}

void all_reduce_slice(Active& a, uint64_t slice) noexcept {
  const uint64_t begin = a.slice_begin(slice);
  const uint64_t offset = begin * a.element_bytes;
  std::array<const std::byte*, shm::kMaxDevices> src;
  std::array<std::byte*, shm::kMaxDevices> dst;
  for (uint32_t r = 0; r < a.ranks; ++r) {
    src[r] = a.send[r] + offset;
    dst[r] = a.recv[r] + offset;
  }
  ByProducts products;
  if (a.block_sums != nullptr) products.block_sum_squares = a.block_sums + begin / kBlockElements;
  a.kernel->fold({.src = src.data(),
                  .ranks = a.ranks,
                  .dst = dst.data(),
                  .dst_count = a.ranks,
                  .count = a.slice_count(slice),
                  .scale = a.scale},
                 products);
  if (const uint32_t bits = flag_bits(products); bits != 0) {
    a.flags.fetch_or(bits, std::memory_order_relaxed);  // ordered by done's release
  }
}

void broadcast_slice(const Active& a, uint64_t slice) noexcept {
  const uint64_t offset = a.slice_begin(slice) * a.element_bytes;
  const std::byte* src = a.send[a.root] + offset;
  std::array<std::byte*, shm::kMaxDevices> dst;
  uint32_t n = 0;
  for (uint32_t r = 0; r < a.ranks; ++r) {
    if (a.recv[r] + offset != src) dst[n++] = a.recv[r] + offset;
  }
  copy_slice(dst.data(), n, src, a.slice_count(slice) * a.element_bytes, false);
}

}  // namespace

bool run_one_slice(Active& a) noexcept {
  // relaxed: the claim only has to be unique; the inputs were published before the object was handed over.
  const uint64_t slice = a.next.fetch_add(1, std::memory_order_relaxed);
  if (slice >= a.slices) return false;
  if (a.op == shm::Op::kAllReduce) {
    all_reduce_slice(a, slice);
  } else {
    broadcast_slice(a, slice);
  }
  a.done.fetch_add(1, std::memory_order_release);
  return true;
}

void fold_inline(const Active& a, std::byte* result, ByProducts& products) noexcept {
  if (a.op == shm::Op::kBroadcast) {
    __builtin_memcpy(result, a.send[a.root], a.count * a.element_bytes);
    return;
  }
  a.kernel->fold({.src = a.send.data(),
                  .ranks = a.ranks,
                  .dst = &result,
                  .dst_count = 1,
                  .count = a.count,
                  .scale = a.scale},
                 products);
}

}  // namespace npu::daemon
