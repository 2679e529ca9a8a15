// What outlives the daemon: reductions that overwrite their inputs, verdicts, and how a run that
// an earlier daemon began is gone on with. docs/design/019-daemon-restart.md.
#include <algorithm>
#include <utility>

#include "daemon/collectives/engine_run.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::daemon {

bool EngineRun::journaled() const noexcept {
  return memory_->journal.valid() && memory_->journal.complete();
}

Told EngineRun::told_of(const Group& group) const noexcept {
  Told told{.rank_mask = group.rank_mask};
  const Gathering& g = group.matcher.head();
  for (uint32_t m = 0; m < group.size; ++m)
    told.tickets[group.members[m]] = g.by_member[m]->s.ticket;
  return told;
}

void EngineRun::announce(const Told& told, const shm::CompletionFields& fields) noexcept {
  if (!journaled()) return;
  memory_->journal.announce(told, fields);
  // From here on the next daemon repeats the verdict and asks for no inputs.
  NPU_FAILPOINT("engine.announced");
}

void EngineRun::announced() noexcept {
  if (journaled()) memory_->journal.announced();
}

/// False if the journal holds this very operation half done and what it says cannot be.
bool EngineRun::protect(Active& a, const Group& group) noexcept {
  if (group.id != 0 || !journaled() || !overwrites_inputs(a)) return true;
  const Told told = told_of(group);
  HalfReduction half;
  if (std::exchange(half_done_, false) && memory_->journal.half_reduction(half) &&
      std::equal(told.tickets.begin(), told.tickets.begin() + group.size, half.tickets.begin())) {
    const bool fits = half.slice_elements > 0 && half.slice_elements % kBlockElements == 0 &&
                      half.slice_elements <= kSliceBytes / a.element_bytes &&
                      half.slices <= memory_->journal.room();
    if (!fits) return false;
    // The last slice may be a short one, and the bits are the same for any slices: `direct` does
    // what is left of a ring.
    a.algorithm = shm::Algorithm::kDirect;
    a.slice_elements = half.slice_elements;
    a.cut();
    if (a.slices != half.slices) return false;
    a.journal = memory_->journal.slices();
    a.journal.redo = true;
    a.journal.identity = &reduce_kernel(a.dtype, ReduceOp::kSum);
    a.flags.store(half.flags, std::memory_order_relaxed);
    return redo_slices(a);
  }
  if (memory_->journal.begin(a, told)) {
    a.journal = memory_->journal.slices();
  } else {
    memory_->journal.give_up();  // the next daemon must not redo what it cannot know is half done
  }
  return true;
}

/// Where the daemon before was in each rank's ring: it took tickets in order and told outcomes in
/// any. A page whose stamps say nonsense makes its rank late, and nothing worse.
void EngineRun::take_over() noexcept {
  for (uint32_t r = 0; r < memory_->world; ++r) {
    const auto& completions = memory_->ranks[r].status_page()->completions;
    uint64_t next = 0;
    for (const auto& slot : completions) {
      next = std::max(next, slot.stamp.load(std::memory_order_relaxed));
    }
    taken_before_[r] = next;
    uint64_t open = next > shm::kQueueDepth ? next - shm::kQueueDepth : 0;
    const auto told = [&](uint64_t ticket) {
      return completions[ticket % shm::kQueueDepth].stamp.load(std::memory_order_relaxed) ==
             ticket + 1;
    };
    while (open < next && told(open)) ++open;
    readers_[r] = shm::SubmissionReader(memory_->ranks[r].submit_page(), open);
  }
  groups_.world().matcher.start_at(memory_->journal.next_sequence());
  resuming_ = true;
  HalfReduction half;
  half_done_ = memory_->journal.half_reduction(half);
}

bool EngineRun::told_before(const Pending& pending) const noexcept {
  const uint64_t ticket = pending.s.ticket;
  if (ticket >= taken_before_[pending.rank]) return false;
  const auto& slot =
      memory_->ranks[pending.rank].status_page()->completions[ticket % shm::kQueueDepth];
  return slot.stamp.load(std::memory_order_relaxed) == ticket + 1;
}

}  // namespace npu::daemon
