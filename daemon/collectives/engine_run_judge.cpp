// Why an operation is refused or a run ends: mismatches, deadlines, ranks that left, cyclic waits.
#include <algorithm>
#include <bit>

#include "daemon/collectives/describe.hpp"
#include "daemon/collectives/engine_run.hpp"
#include "daemon/collectives/wait_cycle.hpp"
#include "shm/base/rank_list.hpp"

namespace npu::daemon {
namespace {

/// How often waits are looked at: often enough for deadlines of tens of milliseconds.
constexpr uint64_t kJudgeNs = 10'000'000;
/// A warning at this part of the deadline, so that nobody has to wait for the end to know.
constexpr uint64_t kWarnFraction = 10;
constexpr uint64_t kWarnAtLeastNs = 1'000'000'000;

uint32_t world_mask(const Group& group, uint32_t member_mask) noexcept {
  uint32_t mask = 0;
  for (uint32_t m = 0; m < group.size; ++m) {
    if ((member_mask & (1u << m)) != 0) mask |= 1u << group.members[m];
  }
  return mask;
}

uint64_t timeout_ns(const Pending& pending) noexcept {
  return uint64_t{pending.s.timeout_ms} * 1'000'000;
}

}  // namespace

bool EngineRun::refuse_if_wrong(Group& group) noexcept {
  const Gathering& g = group.matcher.head();
  if (const auto m = group.matcher.faulty_member()) {
    const Pending& p = *g.by_member[*m];
    refuse_group(
        group, Code::kInvalidArgument, static_cast<int32_t>(p.rank),
        fmt::format("{}: rank {} passed a bad {}", describe(p), p.rank, fault_name(p.fault)));
    return true;
  }
  if (const auto m = group.matcher.mismatch()) {
    const Pending& a = *g.by_member[m->member_a];
    const Pending& b = *g.by_member[m->member_b];
    refuse_group(group, Code::kFailedPrecondition, static_cast<int32_t>(b.rank),
                 fmt::format("ranks {} and {} differ in {}: {} against {}", a.rank, b.rank,
                             m->field, describe(a), describe(b)));
    return true;
  }
  if (static_cast<shm::Op>(g.by_member[0]->s.op) == shm::Op::kDestroy && group.id == 0) {
    refuse_group(group, Code::kInvalidArgument, -1,
                 "destroy: the world lasts as long as the run; detach instead");
    return true;
  }
  return false;
}

bool EngineRun::refuse_if_wrong(const Pair& pair) noexcept {
  for (const Pending* p : {pair.send, pair.recv}) {
    if (p->fault == shm::Fault::kNone) continue;
    refuse_pair(
        pair, Code::kInvalidArgument, static_cast<int32_t>(p->rank),
        fmt::format("{}: rank {} passed a bad {}", describe(*p), p->rank, fault_name(p->fault)));
    return true;
  }
  const char* field = pair.send->s.dtype != pair.recv->s.dtype   ? "data type"
                      : pair.send->s.count != pair.recv->s.count ? "count"
                      : ((pair.send->s.flags ^ pair.recv->s.flags) & shm::kFlagInline) != 0
                          ? "placement of the payload"
                          : nullptr;
  if (field == nullptr) return false;
  refuse_pair(pair, Code::kFailedPrecondition, static_cast<int32_t>(pair.recv->rank),
              fmt::format("ranks {} and {} differ in {}: {} against {}", pair.send->rank,
                          pair.recv->rank, field, describe(*pair.send), describe(*pair.recv)));
  return true;
}

bool EngineRun::all_first(const Gathering& g) const noexcept {
  for (uint32_t mask = g.arrived_mask; mask != 0; mask &= mask - 1) {
    if (!queues_.first(*g.by_member[static_cast<size_t>(__builtin_ctz(mask))])) return false;
  }
  return true;
}

uint64_t EngineRun::waiting_since(const Group& group) const noexcept {
  const Gathering& g = group.matcher.head();
  // Not before it was its turn: operations that a rank queued far ahead do not wait for anybody.
  uint64_t since = std::max(g.first_ns, group.matcher.last_pop_ns());
  for (uint32_t mask = g.arrived_mask; mask != 0; mask &= mask - 1) {
    const Pending& p = *g.by_member[static_cast<size_t>(__builtin_ctz(mask))];
    since = std::max(since, queues_.last_removed_ns(p));
  }
  return since;
}

std::string EngineRun::late_text(const Pending& first, uint32_t missing, uint32_t arrived,
                                 const std::string& last) const {
  const auto rank = static_cast<uint32_t>(__builtin_ctz(missing));
  return fmt::format(
      "rank{} {} did not arrive within {} s (rank {}: pid {}, last submitted {}); "
      "rank{} {} waited",
      std::popcount(missing) > 1 ? "s" : "", rank_list(missing), first.s.timeout_ms / 1000.0, rank,
      memory_->ranks[rank].pid, last, std::popcount(arrived) > 1 ? "s" : "", rank_list(arrived));
}

bool EngineRun::judge_group(const Group& group, uint64_t now, RunFailure& failure) {
  const Gathering& g = group.matcher.head();
  const uint32_t missing = group.matcher.full_mask() & ~g.arrived_mask;
  if (g.arrived_mask == 0 || missing == 0 || !all_first(g)) return false;
  const Pending& first = g.of_first();
  const uint32_t missing_ranks = world_mask(group, missing);
  if (const uint32_t left = missing_ranks & left_mask_; left != 0) {
    const auto rank = static_cast<uint32_t>(__builtin_ctz(left));
    failure = {Code::kAborted, static_cast<int32_t>(rank),
               fmt::format("{}: rank {} has left the run", describe(first), rank), true};
    return true;
  }
  const uint64_t since = waiting_since(group);
  if (first.s.timeout_ms == 0 || now < since || now - since < timeout_ns(first)) return false;
  const auto member = static_cast<uint32_t>(__builtin_ctz(missing));
  const auto last = group.matcher.last_of(member);
  failure = {Code::kDeadlineExceeded, group.members[member],
             fmt::format("{}: {}", describe(first),
                         late_text(first, missing_ranks, world_mask(group, g.arrived_mask),
                                   last ? fmt::format("seq {}", *last) : "nothing")),
             true};
  return true;
}

bool EngineRun::judge_half(const PairMatcher::Half& half, uint64_t now, RunFailure& failure) {
  const Pending& p = *half.pending;
  if (!queues_.first(p)) return false;
  if ((left_mask_ & (1u << half.peer)) != 0) {
    failure = {
        Code::kAborted, static_cast<int32_t>(half.peer),
        fmt::format("{} of rank {}: rank {} has left the run", describe(p), p.rank, half.peer),
        true};
    return true;
  }
  const uint64_t since = std::max(p.arrived_ns, queues_.last_removed_ns(p));
  if (p.s.timeout_ms == 0 || now < since || now - since < timeout_ns(p)) return false;
  failure = {Code::kDeadlineExceeded, static_cast<int32_t>(half.peer),
             fmt::format("{}: {}", describe(p),
                         late_text(p, 1u << half.peer, 1u << p.rank, "no partner for it")),
             true};
  return true;
}

void EngineRun::refuse_cycle(uint64_t now) {
  now_ = now;
  const WaitCycle cycle = find_wait_cycle(groups_, pairs_, queues_);
  if (cycle.empty()) return;
  for (Group* group : cycle.groups) {
    refuse_group(*group, Code::kFailedPrecondition, static_cast<int32_t>(group->members[0]),
                 cycle.text);
  }
  for (const Pair& pair : cycle.pairs) {
    refuse_pair(pair, Code::kFailedPrecondition, static_cast<int32_t>(pair.send->rank), cycle.text);
    std::erase_if(pairs_.matched(), [&](const Pair& p) { return p.send == pair.send; });
  }
  dirty_ = true;
}

bool EngineRun::judge(uint64_t now, RunFailure& failure, std::string& warning) {
  if (aborted_ || now - judged_ns_ < kJudgeNs) return false;
  judged_ns_ = now;
  free_destroyed();
  if (blocked_) refuse_cycle(now);
  if (ending_ && drained()) {
    failure = *ending_;
    return true;
  }
  for (const auto& group : groups_.slots()) {
    if (group == nullptr || group->current != nullptr) continue;
    if (judge_group(*group, now, failure)) return true;
    Gathering& g = group->matcher.head();
    // One warning a round; the others follow in the next.
    if (!warning.empty() || g.arrived_mask == 0 || g.warned || g.of_first().s.timeout_ms == 0 ||
        !all_first(g))
      continue;
    const uint64_t since = waiting_since(*group);
    const uint64_t limit = std::max(timeout_ns(g.of_first()) / kWarnFraction, kWarnAtLeastNs);
    if (now < since || now - since < limit) continue;
    g.warned = true;
    warning =
        fmt::format("{} waits for rank(s) {} since {:.1f} s", describe(g.of_first()),
                    rank_list(world_mask(*group, group->matcher.full_mask() & ~g.arrived_mask)),
                    static_cast<double>(now - since) * 1e-9);
  }
  for (uint32_t r = 0; r < memory_->world; ++r) {
    for (const PairMatcher::Half& half : pairs_.unmatched(r)) {
      if (judge_half(half, now, failure)) return true;
    }
  }
  return false;
}

void EngineRun::drain(const RunFailure& failure, uint64_t now) {
  ending_ = failure;
  drain_ns_ = now;
}

bool EngineRun::drained() {
  // Not "nothing is asked for": ranks that go on would ask for the next operation before the last one is
  // answered to all.
  bool any = false;
  for (uint32_t r = 0; r < memory_->world && !any; ++r) {
    queues_.for_each(r, [&](const Pending& p) { any |= p.arrived_ns <= drain_ns_; });
  }
  return !any;
}

void EngineRun::forgive(uint64_t pause_ns) noexcept {
  drain_ns_ += pause_ns;
  for (const auto& group : groups_.slots()) {
    if (group != nullptr) group->matcher.forgive(pause_ns);
  }
  for (uint32_t r = 0; r < memory_->world; ++r) {
    queues_.for_each(r, [pause_ns](Pending& p) { p.arrived_ns += pause_ns; });
  }
}

std::string EngineRun::situation() const {
  const Group* waiting = nullptr;
  for (const auto& group : groups_.slots()) {
    if (group == nullptr) continue;
    if (group->current != nullptr) {
      return fmt::format("during {} (running)", describe(group->matcher.head().of_first()));
    }
    if (waiting == nullptr && group->matcher.head().arrived_mask != 0) waiting = group.get();
  }
  if (waiting == nullptr) {
    return fmt::format("before collective seq {}", groups_.world().matcher.head_sequence());
  }
  const Gathering& g = waiting->matcher.head();
  return fmt::format("during {} (arrived: ranks {})", describe(g.of_first()),
                     rank_list(world_mask(*waiting, g.arrived_mask)));
}

}  // namespace npu::daemon
