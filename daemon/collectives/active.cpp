#include "daemon/collectives/active.hpp"

namespace npu::daemon {
namespace {

uint32_t flag_bits(const ByProducts& products) noexcept {
  return (products.input_nonfinite ? 1u : 0u) | (products.result_nonfinite ? 2u : 0u);
}

using Sources = std::array<const std::byte*, shm::kMaxDevices>;
using Targets = std::array<std::byte*, shm::kMaxDevices>;

/// Folds all ranks' bytes at `send_offset` into `targets`.
void fold_slice(Active& a, uint64_t slice, uint64_t send_offset, const Targets& targets,
                uint32_t target_count) noexcept {
  Sources src;
  for (uint32_t r = 0; r < a.ranks; ++r) src[r] = a.send[r] + send_offset;
  ByProducts products;
  // Sums are kept for operations of one part only; a part border is no block border.
  if (a.block_sums != nullptr)
    products.block_sum_squares = a.block_sums + a.slice_begin(slice) / kBlockElements;
  a.kernel->fold({.src = src.data(),
                  .ranks = a.ranks,
                  .dst = targets.data(),
                  .dst_count = target_count,
                  .count = a.slice_count(slice),
                  .scale = a.scale},
                 products);
  if (const uint32_t bits = flag_bits(products); bits != 0) {
    a.flags.fetch_or(bits, std::memory_order_relaxed);  // ordered by done's release
  }
}

void copy_to(const Active& a, uint64_t slice, const std::byte* src, const Targets& targets,
             uint32_t n) noexcept {
  copy_slice(targets.data(), n, src, a.slice_count(slice) * a.element_bytes, false);
}

/// One slice: which bytes of which ranks go where. `part` is a rank, or a pair of ranks for
/// all-to-all.
void execute(Active& a, uint64_t slice) noexcept {
  const uint64_t part = a.part_of(slice);
  const uint64_t at = a.slice_begin(slice) * a.element_bytes;      // within the part
  const uint64_t part_at = part * a.count * a.element_bytes + at;  // within a buffer of world parts
  Targets dst;
  switch (a.op) {
    case shm::Op::kAllReduce:
      for (uint32_t r = 0; r < a.ranks; ++r) dst[r] = a.recv[r] + at;
      fold_slice(a, slice, at, dst, a.ranks);
      break;
    case shm::Op::kReduce:
      dst[0] = a.recv[a.root] + at;
      fold_slice(a, slice, at, dst, 1);
      break;
    case shm::Op::kReduceScatter:
      dst[0] = a.recv[part] + at;
      fold_slice(a, slice, part_at, dst, 1);
      break;
    case shm::Op::kBroadcast:
      for (uint32_t r = 0; r < a.ranks; ++r) dst[r] = a.recv[r] + at;
      copy_to(a, slice, a.send[a.root] + at, dst, a.ranks);
      break;
    case shm::Op::kAllGather:
      for (uint32_t r = 0; r < a.ranks; ++r) dst[r] = a.recv[r] + part_at;
      copy_to(a, slice, a.send[part] + at, dst, a.ranks);
      break;
    case shm::Op::kScatter:
      dst[0] = a.recv[part] + at;
      copy_to(a, slice, a.send[a.root] + part_at, dst, 1);
      break;
    case shm::Op::kGather:
      dst[0] = a.recv[a.root] + part_at;
      copy_to(a, slice, a.send[part] + at, dst, 1);
      break;
    case shm::Op::kAllToAll: {
      const uint64_t from = part / a.ranks;
      const uint64_t to = part % a.ranks;
      dst[0] = a.recv[to] + from * a.count * a.element_bytes + at;
      copy_to(a, slice, a.send[from] + to * a.count * a.element_bytes + at, dst, 1);
      break;
    }
    case shm::Op::kNone:
    case shm::Op::kBarrier:
      break;
  }
}

}  // namespace

bool run_one_slice(Active& a) noexcept {
  // relaxed: the claim only has to be unique; the inputs were published before the object was
  // handed over.
  const uint64_t slice = a.next.fetch_add(1, std::memory_order_relaxed);
  if (slice >= a.slices) return false;
  execute(a, slice);
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
