// What an operation that is over adds to the metrics. No clock of its own, no lock, no allocation.
#include <algorithm>
#include <bit>

#include "daemon/collectives/engine_run.hpp"

namespace npu::daemon {
namespace {

FinishedOp finished(const Pending& asked, const shm::CompletionFields& fields, uint64_t end_ns) noexcept {
  return {.op = asked.s.op,
          .dtype = asked.s.dtype,
          .algorithm = static_cast<uint8_t>(fields.algorithm),
          .code = fields.code,
          .nonfinite = fields.found_inf,
          .payload_bytes = asked.s.count * dtype_size(static_cast<DType>(asked.s.dtype)),
          .end_ns = end_ns};
}

/// The rank that all others waited for; -1 if the last ones came together.
int last_to_arrive(const Group& group, const Gathering& g) noexcept {
  int last = -1;
  for (uint32_t m = 0; m < group.size; ++m) {
    const Pending& p = *g.by_member[m];
    if (p.arrived_ns != g.last_ns) continue;
    if (last >= 0) return -1;
    last = static_cast<int>(p.rank);
  }
  return last;
}

}  // namespace

void EngineRun::count_end(const Group& group, const shm::CompletionFields& fields, uint64_t bytes,
                          uint64_t end_ns) noexcept {
  memory_->counters.ended.add(1);
  const Gathering& g = group.matcher.head();
  const Pending& first = g.of_first();
  FinishedOp op = finished(first, fields, end_ns);
  if (first.s.op < shm::kOpCount && shm::op_has_vectors(static_cast<shm::Op>(first.s.op))) {
    op.payload_bytes = bytes / group.size;  // ranks differ
  }
  op.first_ns = g.first_ns;
  op.last_ns = g.last_ns;
  op.start_ns = g.start_ns;
  if (g.arrived_mask == group.matcher.full_mask() && group.size > 1) {
    const int last = last_to_arrive(group, g);
    if (last >= 0) memory_->counters.ranks[static_cast<size_t>(last)].last_arrivals.add(1);
  }
  if (memory_->totals == nullptr) return;
  memory_->totals->count(op);
  for (uint32_t mask = group.rank_mask; mask != 0; mask &= mask - 1) {
    memory_->totals->count_busy(memory_->ranks[static_cast<size_t>(std::countr_zero(mask))].device, op);
  }
}

void EngineRun::count_end(const Pair& pair, const shm::CompletionFields& fields, uint64_t end_ns) noexcept {
  memory_->counters.ended.add(2);  // each half began as an operation of its own
  FinishedOp op = finished(*pair.send, fields, end_ns);
  op.first_ns = std::min(pair.send->arrived_ns, pair.recv->arrived_ns);
  op.last_ns = std::max(pair.send->arrived_ns, pair.recv->arrived_ns);
  op.start_ns = pair.start_ns;
  if (memory_->totals == nullptr) return;
  memory_->totals->count(op);
  for (const Pending* half : {pair.send, pair.recv}) {
    memory_->totals->count_busy(memory_->ranks[half->rank].device, op);
  }
}

void EngineRun::count_taken(uint32_t rank) noexcept {
  RunCounters::Rank& counters = memory_->counters.ranks[rank];
  counters.taken.add(1);
  counters.open.set(queues_.size(rank));
  counters.last_ns.set(now_);
}

void EngineRun::count_answer(uint32_t rank, uint8_t code) noexcept {
  memory_->counters.ranks[rank].open.set(queues_.size(rank));
  if (code == 0 || code >= kCodes || memory_->totals == nullptr) return;
  const uint32_t device = memory_->ranks[rank].device;
  if (device < shm::kMaxDevices) memory_->totals->devices[device].errors[code].add(1);
}

}  // namespace npu::daemon
