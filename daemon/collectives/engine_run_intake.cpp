// What comes in from the ranks: submissions, checked and put where they wait, and the doorbell.
#include <bit>

#include "daemon/collectives/describe.hpp"
#include "daemon/collectives/engine_run.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::daemon {
namespace {

/// Entries taken from one rank in one round, so that no rank can keep the coordinator busy.
constexpr int kTakePerRound = 32;

}  // namespace

bool EngineRun::take_submissions(uint64_t now, RunFailure& failure) noexcept {
  now_ = now;
  for (uint32_t r = 0; r < memory_->world; ++r) {
    for (int i = 0; i < kTakePerRound && readers_[r].ready(); ++i) {
      Pending* pending = queues_.claim(r, readers_[r].taken());
      const bool kept = pending != nullptr && readers_[r].pop(pending->s, pending->vectors);
      if (!kept) {
        failure = {Code::kInvalidArgument, static_cast<int32_t>(r),
                   fmt::format("rank {} (pid {}) broke the submission protocol (entry reused)", r,
                               memory_->ranks[r].pid),
                   false};
        return false;
      }
      if (!accept(*pending, now, failure)) return false;
      count_taken(r);
      kicks_.useful();
      dirty_ = true;
    }
  }
  return true;
}

bool EngineRun::accept(Pending& pending, uint64_t now, RunFailure& failure) noexcept {
  const uint32_t r = pending.rank;
  pending.arrived_ns = now;
  NPU_FAILPOINT("engine.gathering");
  const auto broke = [&](std::string_view what) {
    failure = {Code::kInvalidArgument, static_cast<int32_t>(r),
               fmt::format("rank {} (pid {}) broke the submission protocol ({})", r,
                           memory_->ranks[r].pid, what),
               false};
    return false;
  };
  if (pending.s.generation != memory_->generation) return broke("generation");
  Group* group = groups_.find(pending.s.communicator);
  const int member = group == nullptr ? -1 : group->member_of(r);
  pending.fault = shm::Fault::kNone;
  if (member >= 0) {
    pending.fault = shm::validate(pending.s, pending.vectors,
                                  {.generation = memory_->generation,
                                   .arena_bytes = memory_->ranks[r].arena.size(),
                                   .size = group->size,
                                   .rank = static_cast<uint32_t>(member)});
  }
  if (pending.s.stream >= shm::kMaxStreams) pending.s.stream = 0;
  queues_.add(pending);
  if (told_before(pending)) {  // in its place all the same: a batch may go on behind it
    queues_.remove(pending, now);
    return true;
  }
  if (member < 0) {
    refuse_alone(pending, Code::kNotFound,
                 fmt::format("rank {} is not a member of communicator {}: it was destroyed, or "
                             "split gave it to others",
                             r, pending.s.communicator));
    return true;
  }
  if (shm::op_is_pairwise(static_cast<shm::Op>(pending.s.op))) return accept_pairwise(*group, pending);
  Gathering* gathering = group->matcher.add(static_cast<uint32_t>(member), pending, now);
  if (gathering == nullptr) return broke("sequence");
  trace_arrival(*group, *gathering, std::has_single_bit(gathering->arrived_mask));
  return true;
}

bool EngineRun::accept_pairwise(Group& group, Pending& pending) noexcept {
  if (pending.s.root >= group.size) {
    refuse_alone(pending, Code::kInvalidArgument,
                 fmt::format("{} names rank {} of a communicator of {}", describe(pending),
                             pending.s.root, group.size));
    return true;
  }
  trace_arrival(pending);
  pairs_.add(pending, group.members[pending.s.root]);
  return true;
}

void EngineRun::count_kicks(uint64_t now) noexcept {
  // Any value may be there; it is only compared.
  const uint32_t bell = memory_->hints()->doorbell.value.load(std::memory_order_relaxed);
  if (bell != last_bell_ && !has_submissions()) kicks_.useless(now);
  last_bell_ = bell;
  muted_ = kicks_.muted(now);
}

bool EngineRun::has_submissions() const noexcept {
  for (uint32_t r = 0; r < memory_->world; ++r) {
    if (readers_[r].ready()) return true;
  }
  return false;
}

}  // namespace npu::daemon
