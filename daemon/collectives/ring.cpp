#include "daemon/collectives/ring.hpp"

#include <algorithm>
#include <boost/lockfree/policies.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdlib>
#include <new>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/journal_data.hpp"

namespace npu::daemon {
namespace {

// A token names its collective: a thread that was held up in an earlier one must not apply that
// one's buffers to it.
struct Token {
  Active* active;
  uint32_t slot;
  uint32_t gather;  // 0: partial on its way to rank N-1, 1: result on its way round
  uint64_t slice;
};

// Boost's queue puts its indices 64 bytes apart but leaves the object unaligned; the wrapper gives
// it lines of its own.
struct alignas(shm::kLineBytes) Hop {
  boost::lockfree::spsc_queue<Token, boost::lockfree::capacity<2 * Ring::kSlots>> queue;
};

constexpr size_t kSlotBytes =
    kSliceBytes * 2;  // accumulators are at most twice as wide as elements

struct AlignedFree {
  void operator()(std::byte* p) const noexcept { std::free(p); }
};

}  // namespace

struct Ring::Impl {
  uint32_t ranks;
  std::vector<Hop> hops;  // hops[d]: into device d; hops[ranks]: injections for device 0;
                          // hops[ranks + 1]: finished
  std::unique_ptr<std::byte, AlignedFree> scratch;
  uint32_t free_mask = (1u << kSlots) - 1;

  [[nodiscard]] std::byte* slot(uint32_t i) const noexcept {
    return scratch.get() + i * kSlotBytes;
  }
  Hop& injected() noexcept { return hops[ranks]; }
  Hop& finished() noexcept { return hops[ranks + 1]; }
};

uint64_t Ring::slice_elements(uint64_t element_bytes, uint64_t acc_bytes) noexcept {
  return std::min(kSliceBytes / element_bytes,
                  kSlotBytes / acc_bytes / kBlockElements * kBlockElements);
}

Ring::Ring(uint32_t ranks) : impl_(std::make_unique<Impl>()) {
  impl_->ranks = ranks;
  impl_->hops = std::vector<Hop>(ranks + 2);
  impl_->scratch.reset(static_cast<std::byte*>(std::aligned_alloc(4096, kSlots * kSlotBytes)));
  if (!impl_->scratch) throw std::bad_alloc();
}

Ring::~Ring() = default;

bool Ring::inject(Active& a) noexcept {
  if (impl_->free_mask == 0) return false;
  const uint64_t slice =
      a.next.load(std::memory_order_relaxed);  // the coordinator alone claims ring slices
  if (slice >= a.slices) return false;
  a.next.store(slice + 1, std::memory_order_relaxed);
  const auto slot = static_cast<uint32_t>(__builtin_ctz(impl_->free_mask));
  impl_->free_mask &= ~(1u << slot);
  NPU_CHECK(impl_->injected().queue.push(Token{&a, slot, 0, slice}));
  return true;
}

bool Ring::reap() noexcept {
  Token token;
  bool any = false;
  while (impl_->finished().queue.pop(token)) {
    impl_->free_mask |= 1u << token.slot;
    if (auto* const marks = token.active->journal.marks; marks != nullptr) {
      marks[token.slice].store(shm::kSliceDone, std::memory_order_release);
    }
    token.active->done.fetch_add(1, std::memory_order_release);
    any = true;
  }
  return any;
}

bool Ring::has_work(uint32_t device) const noexcept {
  auto& hops = impl_->hops;
  if (hops[device].queue.read_available() != 0) return true;
  return device == 0 && impl_->injected().queue.read_available() != 0;
}

bool Ring::has_finished() const noexcept { return impl_->finished().queue.read_available() != 0; }

namespace {

/// Which of the slice's inputs is not finite, if the result is not: for sums and products it then
/// shows in the result, so the inputs are read again only in this rare case.
bool any_input_nonfinite(const Active& a, uint64_t offset, uint64_t count) noexcept {
  for (uint32_t r = 0; r + 1 < a.ranks; ++r) {
    if (a.kernel->scan_nonfinite(a.send[r] + offset, count)) return true;
  }
  return false;
}

/// Rounds the partial into `to`: the last device's receive buffer, which may be its input.
uint32_t finish_hop(Active& a, uint64_t begin, uint64_t count, const std::byte* acc,
                    std::byte* to) noexcept {
  const uint64_t offset = begin * a.element_bytes;
  const uint32_t last = a.ranks - 1;
  const bool own_nonfinite = a.kernel->scan_nonfinite(a.send[last] + offset, count);
  ByProducts products;
  if (a.block_sums != nullptr) products.block_sum_squares = a.block_sums + begin / kBlockElements;
  a.kernel->finish(to, acc, count, a.ranks, products);
  if (!products.result_nonfinite) return own_nonfinite ? 1u : 0u;
  return 2u | (own_nonfinite || any_input_nonfinite(a, offset, count) ? 1u : 0u);
}

void note(Active& a, uint32_t bits) noexcept {
  if (bits == 0) return;
  a.flags.fetch_or(bits, std::memory_order_relaxed);
  if (a.journal.flags != nullptr) a.journal.flags->fetch_or(bits, std::memory_order_relaxed);
}

/// Brings the result into the last device's buffer; where that overwrites its input, by way of a
/// scratch slice that outlives this process. Lap 2 takes it from there.
void finish_last(Active& a, const Token& token, const Slice& s, const std::byte* acc,
                 uint32_t thread) noexcept {
  std::byte* to = a.recv[a.ranks - 1] + s.begin * a.element_bytes;
  if (a.journal.marks == nullptr) return note(a, finish_hop(a, s.begin, s.count, acc, to));
  std::byte* const held = a.journal.scratch + thread * kSliceBytes;
  note(a, finish_hop(a, s.begin, s.count, acc, held));
  NPU_FAILPOINT("engine.before_mark");
  auto& mark = a.journal.marks[token.slice];
  mark.store(static_cast<uint8_t>(thread + 1), std::memory_order_release);
  NPU_FAILPOINT("engine.folded");
  copy_slice(&to, 1, held, s.count * a.element_bytes, false);
  NPU_FAILPOINT("engine.copied");
  mark.store(shm::kSliceAtLast, std::memory_order_release);
}

/// Folds the device's slice into the token's partial.
void fold_hop(Active& a, uint32_t device, const Token& token, std::byte* acc,
              uint32_t thread) noexcept {
  const Slice s = slice_at(a, token.slice);
  const std::byte* src = a.send[device] + s.begin * a.element_bytes;
  const bool nonfinite = device == 0 ? a.kernel->begin(acc, src, s.count, a.scale)
                                     : a.kernel->step(acc, src, s.count, a.scale);
  note(a, nonfinite ? 1u : 0u);  // max and min: it may not reach the result
  if (device + 1 == a.ranks) finish_last(a, token, s, acc, thread);
}

void gather_hop(const Active& a, uint32_t device, const Token& token) noexcept {
  const Slice s = slice_at(a, token.slice);
  const uint64_t offset = s.begin * a.element_bytes;
  std::byte* dst = a.recv[device] + offset;
  copy_slice(&dst, 1, a.recv[a.ranks - 1] + offset, s.count * a.element_bytes, false);
}

}  // namespace

bool Ring::serve(uint32_t device, uint32_t thread) noexcept {
  Impl& r = *impl_;
  Token token;
  if (!r.hops[device].queue.pop(token)) {
    if (device != 0 || !r.injected().queue.pop(token)) return false;
  }
  Active& a = *token.active;
  const uint32_t last = r.ranks - 1;
  if (token.gather == 0) {
    fold_hop(a, device, token, r.slot(token.slot), thread);
    if (device == last) token.gather = 1;
  } else {
    gather_hop(a, device, token);
  }
  // The last to receive the result is rank N-2; with one rank the fold itself was all.
  const bool complete = token.gather == 1 && (last == 0 || (last > 0 && device + 1 == last));
  Hop& next = complete ? r.finished() : r.hops[(device + 1) % r.ranks];
  NPU_CHECK(next.queue.push(token));
  return true;
}

}  // namespace npu::daemon
