// The flight recorder's records, made anew from the bookkeeping at each change of state.
#include <bit>

#include "daemon/collectives/engine_run.hpp"
#include "daemon/collectives/flight_recorder.hpp"
#include "shm/base/clock.hpp"

namespace npu::daemon {
namespace {

using shm::TraceRecord;
using shm::TraceState;

void describe_request(const Pending& p, TraceRecord& record) noexcept {
  record.sequence = p.sequence;
  record.count = p.s.count;
  record.communicator = p.s.communicator;
  record.op = p.s.op;
  record.dtype = p.s.dtype;
  record.reduce_op = p.s.reduce_op;
}

TraceRecord record_of(const Group& group, const Gathering& g) noexcept {
  TraceRecord record;
  const Pending& first = g.of_first();
  describe_request(first, record);
  record.members = group.rank_mask;
  record.start_ns = g.start_ns;
  if (first.s.op < shm::kOpCount && shm::op_has_root(static_cast<shm::Op>(first.s.op)) &&
      first.s.root < group.size) {
    record.root_or_peer = group.members[first.s.root];
  }
  for (uint32_t mask = g.arrived_mask; mask != 0; mask &= mask - 1) {
    const Pending& p = *g.by_member[static_cast<size_t>(std::countr_zero(mask))];
    record.arrival_ns[p.rank] = p.arrived_ns;
  }
  return record;
}

TraceRecord record_of(const Pair& pair) noexcept {
  TraceRecord record;
  describe_request(*pair.send, record);
  record.start_ns = pair.start_ns;
  record.members = (1u << pair.send->rank) | (1u << pair.recv->rank);
  record.root_or_peer = static_cast<int32_t>(pair.recv->rank);
  record.arrival_ns[pair.recv->rank] = pair.recv->arrived_ns;
  record.arrival_ns[pair.send->rank] = pair.send->arrived_ns;
  return record;
}

void set_end(TraceRecord& record, const shm::CompletionFields& fields, uint64_t bytes,
             uint64_t now) noexcept {
  record.state = static_cast<uint8_t>(fields.code == 0 ? TraceState::kDone : TraceState::kFailed);
  record.code = fields.code;
  record.culprit = fields.culprit;
  record.algorithm = static_cast<uint8_t>(fields.algorithm);
  record.bytes = bytes;
  record.end_ns = now;
  if (record.start_ns == 0) record.start_ns = now;
}

}  // namespace

void EngineRun::trace_arrival(const Group& group, Gathering& g, bool first) noexcept {
  if (first) memory_->counters.started.add(1);
  if (memory_->recorder == nullptr) return;
  if (first) g.trace = memory_->recorder->open();
  memory_->recorder->write(g.trace, record_of(group, g));
}

void EngineRun::trace_arrival(Pending& half) noexcept {
  memory_->counters.started.add(1);
  if (memory_->recorder == nullptr) return;
  half.trace = memory_->recorder->open();
  TraceRecord record;
  describe_request(half, record);
  record.members = 1u << half.rank;
  record.arrival_ns[half.rank] = half.arrived_ns;
  memory_->recorder->write(half.trace, record);
}

void EngineRun::trace_start(Running& running) noexcept {
  if (running.group == nullptr) {
    running.pair.start_ns = now_ns();
    return;
  }
  Gathering& g = running.group->matcher.head();
  g.start_ns = now_ns();
  if (memory_->recorder == nullptr) return;
  TraceRecord record = record_of(*running.group, g);
  record.state = static_cast<uint8_t>(TraceState::kRunning);
  record.algorithm = static_cast<uint8_t>(running.active.algorithm);
  memory_->recorder->write(g.trace, record);
}

void EngineRun::trace_end(const Group& group, const shm::CompletionFields& fields,
                          uint64_t bytes) noexcept {
  const uint64_t end_ns = now_ns();
  count_end(group, fields, bytes, end_ns);
  if (memory_->recorder == nullptr) return;
  const Gathering& g = group.matcher.head();
  TraceRecord record = record_of(group, g);
  set_end(record, fields, bytes, end_ns);
  memory_->recorder->write(g.trace, record);
}

void EngineRun::trace_end(const Pair& pair, const shm::CompletionFields& fields,
                          uint64_t bytes) noexcept {
  const uint64_t end_ns = now_ns();
  count_end(pair, fields, end_ns);
  if (memory_->recorder == nullptr) return;
  TraceRecord record = record_of(pair);
  set_end(record, fields, bytes, end_ns);
  // Each half has a record, so that one that never finds its partner shows.
  memory_->recorder->write(pair.send->trace, record);
  record.op = static_cast<uint8_t>(shm::Op::kRecv);
  record.root_or_peer = static_cast<int32_t>(pair.send->rank);
  memory_->recorder->write(pair.recv->trace, record);
}

void EngineRun::trace_abort(const RunFailure& failure) noexcept {
  const shm::CompletionFields fields{.code = static_cast<uint8_t>(failure.code),
                                     .culprit = failure.culprit};
  for (const auto& group : groups_.slots()) {
    if (group != nullptr && group->matcher.head().arrived_mask != 0) trace_end(*group, fields, 0);
  }
}

}  // namespace npu::daemon
