#include "daemon/collectives/matcher.hpp"

#include <fmt/core.h>

#include <bit>

#include "shm/base/dtype.hpp"

namespace npu::daemon {
namespace {

using shm::Op;
using shm::Submission;

/// The first field in which two submissions of one collective differ, or null.
const char* differing_field(const Submission& a, const Submission& b) noexcept {
  if (a.op != b.op) return "operation";
  const Op op = static_cast<Op>(a.op);
  if (op == Op::kBarrier) return nullptr;
  if (a.dtype != b.dtype) return "data type";
  if (a.count != b.count) return "count";
  if (shm::op_reduces(op) && a.reduce_op != b.reduce_op) return "reduce op";
  if (shm::op_has_root(op) && a.root != b.root) return "root";
  if (a.flags != b.flags) return "flags";
  if (shm::op_reduces(op) && static_cast<ReduceOp>(a.reduce_op) == ReduceOp::kPreMulSum &&
      std::bit_cast<uint64_t>(a.scale) != std::bit_cast<uint64_t>(b.scale)) {
    return "scale";
  }
  return nullptr;
}

}  // namespace

Matcher::Matcher(uint32_t world)
    : full_mask_((1u << world) - 1), slots_(std::make_unique<Gathering[]>(shm::kQueueDepth)) {}

bool Matcher::add(uint32_t rank, const Submission& submission, shm::Fault fault,
                  uint64_t now) noexcept {
  if (submission.sequence < next_ || submission.sequence - next_ >= shm::kQueueDepth) return false;
  Gathering& g = slot(submission.sequence);
  if ((g.arrived_mask & (1u << rank)) != 0) return false;
  if (g.arrived_mask == 0) g.first_ns = now;
  g.last_ns = now;
  g.arrived_mask |= 1u << rank;
  g.by_rank[rank] = submission;
  g.faults[rank] = fault;
  if (submission.sequence + 1 > last_plus_one_[rank])
    last_plus_one_[rank] = submission.sequence + 1;
  return true;
}

std::optional<Mismatch> Matcher::mismatch() const noexcept {
  const Gathering& g = head();
  const Submission& first = g.by_rank[0];
  for (uint32_t r = 1; (1u << r) <= full_mask_; ++r) {
    if (const char* field = differing_field(first, g.by_rank[r])) return Mismatch{field, 0, r};
  }
  return std::nullopt;
}

std::optional<uint32_t> Matcher::faulty_rank() const noexcept {
  for (uint32_t r = 0; (1u << r) <= full_mask_; ++r) {
    if (head().faults[r] != shm::Fault::kNone) return r;
  }
  return std::nullopt;
}

void Matcher::pop() noexcept {
  head().arrived_mask = 0;
  ++next_;
}

std::optional<uint64_t> Matcher::last_of(uint32_t rank) const noexcept {
  if (last_plus_one_[rank] == 0) return std::nullopt;
  return last_plus_one_[rank] - 1;
}

void Matcher::forgive(uint64_t pause_ns) noexcept {
  for (uint32_t i = 0; i < shm::kQueueDepth; ++i) slots_[i].first_ns += pause_ns;
}

std::string describe(const Submission& s) {
  if (static_cast<Op>(s.op) == Op::kBarrier) return fmt::format("barrier seq {}", s.sequence);
  std::string detail(dtype_name(static_cast<DType>(s.dtype)));
  const Op op = static_cast<Op>(s.op);
  if (shm::op_reduces(op)) {
    detail += fmt::format(", {}", reduce_op_name(static_cast<ReduceOp>(s.reduce_op)));
  }
  if (shm::op_has_root(op)) detail += fmt::format(", root {}", s.root);
  return fmt::format("{} seq {} ({}, {} elements)", shm::op_name(op), s.sequence, detail, s.count);
}

std::string rank_list(uint32_t mask) {
  std::string text;
  for (uint32_t r = 0; r < 32; ++r) {
    if ((mask & (1u << r)) == 0) continue;
    uint32_t last = r;
    while (last + 1 < 32 && (mask & (1u << (last + 1))) != 0) ++last;
    if (!text.empty()) text += ',';
    text += last == r ? fmt::format("{}", r) : fmt::format("{}-{}", r, last);
    r = last;
  }
  return text;
}

}  // namespace npu::daemon
