#include "daemon/collectives/matcher.hpp"

#include <algorithm>
#include <bit>

#include "shm/base/dtype.hpp"

namespace npu::daemon {
namespace {

using shm::Op;

/// Members agree on the parts that they share: all on the counts of all-gather-v and
/// reduce-scatter-v, each pair on what all-to-all-v moves between them.
const char* differing_vectors(Op op, const Pending& a, const Pending& b, uint32_t size,
                              uint32_t member_a, uint32_t member_b) noexcept {
  const auto equal = [size](const uint64_t* x, const uint64_t* y) {
    return std::equal(x, x + size, y);
  };
  if (op == Op::kAllGatherV) {
    return equal(a.vectors.recv_counts, b.vectors.recv_counts) ? nullptr : "receive counts";
  }
  if (op == Op::kReduceScatterV) {
    return equal(a.vectors.send_counts, b.vectors.send_counts) ? nullptr : "send counts";
  }
  if (a.vectors.send_counts[member_b] != b.vectors.recv_counts[member_a] ||
      b.vectors.send_counts[member_a] != a.vectors.recv_counts[member_b]) {
    return "counts of the parts for each other";
  }
  return nullptr;
}

}  // namespace

const char* differing_field(const Pending& a, const Pending& b) noexcept {
  if (a.s.op != b.s.op) return "operation";
  const Op op = static_cast<Op>(a.s.op);
  if (shm::op_moves_nothing(op)) return nullptr;
  if (a.s.dtype != b.s.dtype) return "data type";
  if (!shm::op_has_vectors(op) && a.s.count != b.s.count) return "count";
  if (shm::op_reduces(op) && a.s.reduce_op != b.s.reduce_op) return "reduce op";
  if (shm::op_has_root(op) && a.s.root != b.s.root) return "root";
  if (((a.s.flags ^ b.s.flags) & ~shm::kFlagJoined) != 0) return "flags";
  if (shm::op_reduces(op) && static_cast<ReduceOp>(a.s.reduce_op) == ReduceOp::kPreMulSum &&
      std::bit_cast<uint64_t>(a.s.scale) != std::bit_cast<uint64_t>(b.s.scale)) {
    return "scale";
  }
  return nullptr;
}

Matcher::Matcher(uint32_t size)
    : size_(size),
      full_mask_((1u << size) - 1),
      slots_(std::make_unique<Gathering[]>(shm::kQueueDepth)) {}

Gathering* Matcher::add(uint32_t member, Pending& pending, uint64_t now) noexcept {
  const uint64_t sequence = submitted_[member];
  if (sequence - next_ >= shm::kQueueDepth) return nullptr;
  ++submitted_[member];
  pending.sequence = sequence;
  Gathering& g = slots_[sequence % shm::kQueueDepth];
  if (g.arrived_mask == 0) g.first_ns = now;
  g.last_ns = now;
  g.arrived_mask |= 1u << member;
  g.by_member[member] = &pending;
  return &g;
}

std::optional<Mismatch> Matcher::mismatch() const noexcept {
  const Gathering& g = head();
  const Pending& first = *g.by_member[0];
  for (uint32_t m = 1; m < size_; ++m) {
    if (const char* field = differing_field(first, *g.by_member[m])) {
      return Mismatch{field, 0, m};
    }
  }
  const Op op = static_cast<Op>(first.s.op);
  if (!shm::op_has_vectors(op)) return std::nullopt;
  // A rank against itself, too: what it sends itself must be what it receives from itself.
  for (uint32_t a = 0; a < size_; ++a) {
    for (uint32_t b = a; b < size_; ++b) {
      if (const char* field =
              differing_vectors(op, *g.by_member[a], *g.by_member[b], size_, a, b)) {
        return Mismatch{field, a, b};
      }
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> Matcher::faulty_member() const noexcept {
  for (uint32_t m = 0; m < size_; ++m) {
    if (head().by_member[m]->fault != shm::Fault::kNone) return m;
  }
  return std::nullopt;
}

void Matcher::pop(uint64_t now) noexcept {
  head().arrived_mask = 0;
  head().warned = false;
  head().start_ns = 0;
  ++next_;
  last_pop_ns_ = now;
}

std::optional<uint64_t> Matcher::last_of(uint32_t member) const noexcept {
  if (submitted_[member] == 0) return std::nullopt;
  return submitted_[member] - 1;
}

void Matcher::forgive(uint64_t pause_ns) noexcept {
  for (uint32_t i = 0; i < shm::kQueueDepth; ++i) slots_[i].first_ns += pause_ns;
}

}  // namespace npu::daemon
