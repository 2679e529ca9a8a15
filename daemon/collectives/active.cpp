#include "daemon/collectives/active.hpp"

#include <algorithm>

#include "shm/base/failpoint.hpp"
#include "shm/journal_data.hpp"

namespace npu::daemon {
namespace {

uint32_t flag_bits(const ByProducts& products) noexcept {
  return (products.input_nonfinite ? 1u : 0u) | (products.result_nonfinite ? 2u : 0u);
}

using Sources = std::array<const std::byte*, shm::kMaxDevices>;
using Targets = ResultPlaces;

/// Where part `part` of a rank's buffer begins, in bytes: at its displacement, or after the parts
/// before it. `sending` tells which buffer is meant.
uint64_t part_offset(const Active& a, uint32_t rank, uint32_t part, bool sending) noexcept {
  const shm::VectorArgs* v = a.vectors[rank];
  if (v == nullptr) return part * a.count * a.element_bytes;
  return (sending ? v->send_displs[part] : v->recv_displs[part]) * a.element_bytes;
}

/// A slice whose result overwrites its inputs is noted before its first store, and when it is
/// whole.
void fold_slice(Active& a, uint64_t slice, const Slice& s, uint32_t thread) noexcept {
  if (a.journal.marks == nullptr) return fold_part(a, s, 0, thread);
  std::atomic<uint8_t>& mark = a.journal.marks[slice];
  __atomic_store_n(&a.journal.holds[thread].progress, 0, __ATOMIC_RELEASE);
  NPU_FAILPOINT("engine.before_mark");
  mark.store(static_cast<uint8_t>(shm::kSliceHeld + thread + 1), std::memory_order_seq_cst);
  fold_part(a, s, 0, thread);
  NPU_FAILPOINT("engine.folded");
  mark.store(shm::kSliceDone, std::memory_order_release);
  NPU_FAILPOINT("engine.copied");
}

/// A slice that the daemon before has done: what it noted on the way is made anew from the result.
void sum_squares_again(const Active& a, const Slice& s, uint32_t thread) noexcept {
  if (a.block_sums == nullptr) return;
  Targets places{};
  (void)result_places(a, s, places);
  const std::byte* const src = places[0];
  std::byte* const nowhere = a.journal.scratch + thread * kSliceBytes;
  ByProducts products;
  products.block_sum_squares = a.block_sums + s.begin / kBlockElements;
  a.journal.identity->fold(
      {.src = &src, .ranks = 1, .dst = &nowhere, .dst_count = 1, .count = s.count}, products);
}

void copy_to(const Active& a, const Slice& s, const std::byte* src, const Targets& targets,
             uint32_t n) noexcept {
  copy_slice(targets.data(), n, src + s.begin * a.element_bytes, s.count * a.element_bytes,
             a.nontemporal);
}

/// One slice: which bytes of which ranks go where.
void execute(Active& a, uint64_t slice, const Slice& s, uint32_t thread) noexcept {
  const uint64_t at = s.begin * a.element_bytes;
  const uint32_t part = s.part;
  Targets dst;
  switch (a.op) {
    case shm::Op::kAllReduce:
    case shm::Op::kReduce:
    case shm::Op::kReduceScatter:
    case shm::Op::kReduceScatterV:
      return fold_slice(a, slice, s, thread);
    case shm::Op::kBroadcast:
      for (uint32_t r = 0; r < a.ranks; ++r) dst[r] = a.recv[r] + at;
      return copy_to(a, s, a.send[a.root], dst, a.ranks);
    case shm::Op::kAllGather:
    case shm::Op::kAllGatherV:
      for (uint32_t r = 0; r < a.ranks; ++r)
        dst[r] = a.recv[r] + part_offset(a, r, part, false) + at;
      return copy_to(a, s, a.send[part], dst, a.ranks);
    case shm::Op::kScatter:
      dst[0] = a.recv[part] + at;
      return copy_to(a, s, a.send[a.root] + part_offset(a, a.root, part, true), dst, 1);
    case shm::Op::kGather:
      dst[0] = a.recv[a.root] + part_offset(a, a.root, part, false) + at;
      return copy_to(a, s, a.send[part], dst, 1);
    case shm::Op::kAllToAll:
    case shm::Op::kAllToAllV: {
      const uint32_t from = part / a.ranks;
      const uint32_t to = part % a.ranks;
      dst[0] = a.recv[to] + part_offset(a, to, from, false) + at;
      return copy_to(a, s, a.send[from] + part_offset(a, from, to, true), dst, 1);
    }
    case shm::Op::kSend:  // a pair: rank 0 to rank 1
      dst[0] = a.recv[1] + at;
      return copy_to(a, s, a.send[0], dst, 1);
    default:
      return;  // moves nothing
  }
}

}  // namespace

void fold_part(Active& a, const Slice& s, uint64_t first, uint32_t thread) noexcept {
  const uint64_t at = (s.begin + first) * a.element_bytes;
  Sources src;
  for (uint32_t r = 0; r < a.ranks; ++r) src[r] = a.send[r] + part_offset(a, r, s.part, true) + at;
  Targets targets;
  const uint32_t target_count = result_places(a, s, targets);
  for (uint32_t i = 0; i < target_count; ++i) targets[i] += first * a.element_bytes;
  FoldHold hold;
  if (a.journal.marks != nullptr) {
    shm::HoldRecord& record = a.journal.holds[thread];
    hold = {.progress = &record.progress,
            .windows = record.windows,
            .flags = reinterpret_cast<uint32_t*>(a.journal.flags),
            .first = first};
  }
  ByProducts products;
  // Sums are kept for operations of one part only; a part border is no block border.
  if (a.block_sums != nullptr && first == 0) {
    products.block_sum_squares = a.block_sums + s.begin / kBlockElements;
  }
  a.kernel->fold({.src = src.data(),
                  .ranks = a.ranks,
                  .dst = targets.data(),
                  .dst_count = target_count,
                  .count = s.count - first,
                  .scale = a.scale,
                  .nontemporal = a.nontemporal,
                  .hold = hold.progress != nullptr ? &hold : nullptr},
                 products);
  if (const uint32_t bits = flag_bits(products); bits != 0) {
    a.flags.fetch_or(bits, std::memory_order_relaxed);  // ordered by done's release
  }
}

uint32_t result_places(const Active& a, const Slice& s, ResultPlaces& places) noexcept {
  const uint64_t at = s.begin * a.element_bytes;
  if (a.op == shm::Op::kAllReduce) {
    for (uint32_t r = 0; r < a.ranks; ++r) places[r] = a.recv[r] + at;
    return a.ranks;
  }
  places[0] = a.recv[a.op == shm::Op::kReduce ? a.root : s.part] + at;
  return 1;
}

uint64_t Active::part_count(uint32_t part) const noexcept {
  switch (op) {
    case shm::Op::kAllGatherV:
      return vectors[0]->recv_counts[part];
    case shm::Op::kReduceScatterV:
      return vectors[0]->send_counts[part];
    case shm::Op::kAllToAllV:
      return vectors[part / ranks]->send_counts[part % ranks];
    default:
      return count;
  }
}

void Active::cut() noexcept {
  slices = 0;
  for (uint32_t p = 0; p < parts; ++p) {
    part_first[p] = slices;
    slices += (part_count(p) + slice_elements - 1) / slice_elements;
  }
  part_first[parts] = slices;
}

Slice slice_at(const Active& a, uint64_t slice) noexcept {
  const auto* first = a.part_first.data();
  const auto* after = std::upper_bound(first, first + a.parts, slice);
  const auto part = static_cast<uint32_t>(after - first - 1);
  const uint64_t begin = (slice - first[part]) * a.slice_elements;
  return {part, begin, std::min(a.slice_elements, a.part_count(part) - begin)};
}

bool run_one_slice(Active& a, uint32_t thread) noexcept {
  // relaxed: the claim only has to be unique; the inputs were published before the object was
  // handed over.
  const uint64_t slice = a.next.fetch_add(1, std::memory_order_relaxed);
  if (slice >= a.slices) return false;
  const Slice s = slice_at(a, slice);
  if (a.journal.redo && a.journal.marks[slice].load(std::memory_order_relaxed) == shm::kSliceDone) {
    sum_squares_again(a, s, thread);
  } else {
    execute(a, slice, s, thread);
  }
  a.done.fetch_add(1, std::memory_order_release);
  return true;
}

uint64_t moved_bytes(const Active& a) noexcept {
  uint64_t elements = 0;
  for (uint32_t p = 0; p < a.parts; ++p) elements += a.part_count(p);
  const uint64_t bytes = elements * a.element_bytes;
  const uint64_t n = a.ranks;
  switch (a.op) {
    case shm::Op::kAllReduce:
      // ring: N folds (two loads, a store) and N - 1 copies
      return a.algorithm == shm::Algorithm::kRing ? 5 * n * bytes : 2 * n * bytes;
    case shm::Op::kReduce:
    case shm::Op::kReduceScatter:
    case shm::Op::kReduceScatterV:
      return (n + 1) * bytes;
    case shm::Op::kBroadcast:
    case shm::Op::kAllGather:
    case shm::Op::kAllGatherV:
      return n * bytes;  // the source keeps its own
    default:
      return 2 * bytes;
  }
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
