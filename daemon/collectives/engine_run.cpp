#include "daemon/collectives/engine_run.hpp"

#include <algorithm>

#include "daemon/collectives/describe.hpp"
#include "daemon/collectives/prepare.hpp"
#include "daemon/collectives/split.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::daemon {
namespace {

using shm::Op;

Op op_of(const Pending& p) noexcept { return static_cast<Op>(p.s.op); }

bool is_inline(const Pending& p) noexcept { return (p.s.flags & shm::kFlagInline) != 0; }

uint64_t blocks_of(const RunMemory& memory) noexcept {
  uint64_t arena = 0;
  for (uint32_t r = 0; r < memory.world; ++r) arena = std::max(arena, memory.ranks[r].arena.size());
  return arena / kBlockElements + 1;  // one-byte elements are the densest
}

}  // namespace

EngineRun::EngineRun(std::shared_ptr<RunMemory> memory,
                     std::span<const std::unique_ptr<Helper>> helpers, Parker& coordinator,
                     const CostModel& costs)
    : memory_(std::move(memory)),
      helpers_(helpers),
      coordinator_(coordinator),
      costs_(costs),
      queues_(memory_->world),
      groups_(memory_->world, blocks_of(*memory_)) {
  for (uint32_t r = 0; r < memory_->world; ++r) {
    readers_[r] = shm::SubmissionReader(memory_->ranks[r].submit_page());
    writers_[r] = shm::CompletionWriter(memory_->ranks[r].status_page());
  }
  if (memory_->taken_over) take_over();
}

EngineRun::Running* EngineRun::free_running() noexcept {
  for (Running& running : pool_) {
    // Pairs with the helpers' release when they leave.
    if (!running.busy && running.active.users.load(std::memory_order_acquire) == 0) return &running;
  }
  return nullptr;
}

bool EngineRun::start_ready() noexcept {
  if (aborted_) return false;
  if (starved_ && free_running() != nullptr) dirty_ = true;
  if (!dirty_) return false;
  dirty_ = starved_ = blocked_ = false;
  bool any = false;
  for (const auto& group : groups_.slots()) {
    while (group != nullptr && group->current == nullptr && group->matcher.head_complete()) {
      if (!start_group(*group)) break;
      any = true;
    }
  }
  auto& matched = pairs_.matched();
  for (size_t i = 0; i < matched.size();) {
    const Pair pair = matched[i];
    if (!start_pair(pair)) {
      ++i;
      continue;
    }
    matched.erase(matched.begin() + static_cast<ptrdiff_t>(i));
    any = true;
  }
  // What was answered at once may have been what others waited for.
  dirty_ = dirty_ || any;
  return any;
}

bool EngineRun::start_group(Group& group) noexcept {
  if (refuse_if_wrong(group)) return true;
  if (!all_first(group.matcher.head())) {
    blocked_ = true;
    return false;
  }
  return start_agreed(group);
}

bool EngineRun::start_agreed(Group& group) noexcept {
  const Pending& first = *group.matcher.head().by_member[0];
  // Before anything looks at its type, which is not validated: a barrier has none.
  if (op_of(first) == Op::kBarrier) {
    complete_group(group, {.algorithm = shm::Algorithm::kDirect});
    return true;
  }
  if (op_of(first) == Op::kSplit) {
    run_split(group);
    return true;
  }
  if (op_of(first) == Op::kDestroy) {
    run_destroy(group);
    return true;
  }
  if (is_inline(first)) {
    run_inline(group);
    return true;
  }
  Running* running = free_running();
  if (running == nullptr) {
    starved_ = true;
    return false;
  }
  prepare_collective(running->active, group, *memory_, costs_);
  if (running->active.slices == 0) {
    complete_group(group, {.algorithm = running->active.algorithm});
    return true;
  }
  if (!protect(running->active, group)) {
    refuse_group(
        group, Code::kUnavailable, -1,
        fmt::format("{}: it was half done when npud died, and the run's journal is damaged: "
                    "what it says of it does not fit; relaunch, the run resumes from its "
                    "last checkpoint",
                    describe(*group.matcher.head().by_member[0])));
    return true;
  }
  running->group = &group;
  group.current = &running->active;
  launch(*running);
  return true;
}

bool EngineRun::start_pair(const Pair& pair) noexcept {
  if (refuse_if_wrong(pair)) return true;
  if (!queues_.first(*pair.send) || !queues_.first(*pair.recv)) {
    blocked_ = true;
    return false;
  }
  if (pair.send->s.count == 0 || is_inline(*pair.send)) {
    complete_pair(pair, {.algorithm = shm::Algorithm::kDirect,
                         .inline_payload = pair.send->s.inline_payload.data()});
    return true;
  }
  Running* running = free_running();
  if (running == nullptr) {
    starved_ = true;
    return false;
  }
  prepare_pair(running->active, pair, *memory_);
  running->group = nullptr;
  running->pair = pair;
  launch(*running);
  return true;
}

void EngineRun::launch(Running& running) noexcept {
  Active& a = running.active;
  running.busy = true;
  trace_start(running);
  const auto helpers = helpers_.first(sharing_);
  if (a.algorithm == shm::Algorithm::kRing) {
    share_ring(a, running.group->ring, helpers, coordinator_);
  } else if (moved_bytes(a) >= costs_.share_bytes) {
    share_slices(a, helpers);
  }
}

void EngineRun::run_inline(Group& group) noexcept {
  Active& a = small_;
  prepare_collective(a, group, *memory_, costs_);
  const Gathering& g = group.matcher.head();
  for (uint32_t m = 0; m < a.ranks; ++m) a.send[m] = g.by_member[m]->s.inline_payload.data();
  alignas(64) std::array<std::byte, shm::kInlineBytes> result{};
  double sum_squares = 0;
  ByProducts products;
  if (a.block_sums != nullptr) products.block_sum_squares = &sum_squares;
  fold_inline(a, result.data(), products);
  complete_group(group, {.found_inf = products.input_nonfinite,
                         .result_inf = products.result_nonfinite,
                         .algorithm = a.algorithm,
                         .sum_squares = sum_squares,
                         .inline_payload = result.data()});
}

void EngineRun::run_split(Group& group) noexcept {
  if (memory_->journal.valid()) memory_->journal.give_up();
  SplitResult result;
  if (!split_group(group, groups_, result)) {
    refuse_group(
        group, Code::kResourceExhausted, -1,
        fmt::format("{}: no room for {} more communicators, {} of {} are in use; destroy "
                    "some first",
                    describe(*group.matcher.head().by_member[0]), result.wanted,
                    shm::kMaxCommunicators - groups_.free_slots(), shm::kMaxCommunicators));
    return;
  }
  const Gathering& g = group.matcher.head();
  const uint64_t sequence = group.matcher.head_sequence();
  for (uint32_t m = 0; m < group.size; ++m) {
    std::array<std::byte, shm::kInlineBytes> payload{};
    std::copy_n(reinterpret_cast<const std::byte*>(&result.replies[m]), sizeof(shm::SplitReply),
                payload.begin());
    answer(*g.by_member[m], {.sequence = sequence, .inline_payload = payload.data()});
  }
  trace_end(group, {}, 0);
  group.matcher.pop(now_);
  ring_board(*memory_, group.rank_mask);
}

void EngineRun::run_destroy(Group& group) noexcept {
  complete_group(group, {.algorithm = shm::Algorithm::kDirect});
  // Its operations are done, but a helper may still be on its way out of the last ring.
  destroyed_.push_back(groups_.release(group.id));
  free_destroyed();
}

void EngineRun::free_destroyed() noexcept {
  std::erase_if(destroyed_, [this](const std::unique_ptr<Group>& group) {
    return std::none_of(pool_.begin(), pool_.end(), [&group](const Running& running) {
      // Pairs with the helpers' release when they leave.
      return running.group == group.get() &&
             running.active.users.load(std::memory_order_acquire) != 0;
    });
  });
}

bool EngineRun::step(Running& running) noexcept {
  Active& a = running.active;
  NPU_FAILPOINT("engine.slice");
  bool moved = false;
  if (a.algorithm == shm::Algorithm::kRing) {
    moved = step_ring(a, running.group->ring, helpers_, !aborted_);
  } else if (!aborted_) {
    moved = run_one_slice(a);
  }
  if (!a.finished()) return moved;
  finish(running);
  return true;
}

bool EngineRun::advance() noexcept {
  for (size_t i = 0; i < pool_.size(); ++i) {
    Running& running = pool_[(turn_ + i) % pool_.size()];
    if (!running.busy || !step(running)) continue;
    turn_ = (turn_ + i + 1) % pool_.size();
    return true;
  }
  return false;
}

bool EngineRun::can_step(const Running& running) const noexcept {
  const Active& a = running.active;
  if (a.finished()) return true;
  if (a.algorithm != shm::Algorithm::kRing) {
    return !aborted_ && a.next.load(std::memory_order_relaxed) < a.slices;
  }
  const Ring& ring = running.group->ring;
  if (ring.has_finished()) return true;
  for (uint32_t d = 0; d < a.ranks / a.ring_owners; ++d) {
    if (ring.has_work(d)) return true;
  }
  return false;
}

bool EngineRun::can_advance() const noexcept {
  if (dirty_ && !aborted_) return true;
  for (const Running& running : pool_) {
    if (running.busy && can_step(running)) return true;
    const bool is_free = !running.busy && running.active.users.load(std::memory_order_acquire) == 0;
    if (starved_ && is_free && !aborted_) return true;
  }
  return false;
}

void EngineRun::finish(Running& running) noexcept {
  Active& a = running.active;
  running.busy = false;
  dirty_ = true;
  if (a.algorithm == shm::Algorithm::kRing) {
    for (const auto& helper : helpers_) helper->parker().notify();  // they leave the ring
  }
  Group* group = running.group;
  if (group != nullptr) group->current = nullptr;
  if (aborted_) return;
  if (group == nullptr) {
    complete_pair(running.pair, {.algorithm = a.algorithm}, moved_bytes(a));
    return;
  }
  double sum_squares = 0;
  if (a.block_sums != nullptr) {
    // Ascending blocks: the sum does not depend on slices or threads.
    const uint64_t blocks = (a.count + kBlockElements - 1) / kBlockElements;
    for (uint64_t b = 0; b < blocks; ++b) sum_squares += a.block_sums[b];
  }
  const uint32_t flags = a.flags.load(std::memory_order_relaxed);  // ordered by finished()
  NPU_FAILPOINT("engine.reduced");
  complete_group(*group,
                 {.found_inf = (flags & 1) != 0,
                  .result_inf = (flags & 2) != 0,
                  .algorithm = a.algorithm,
                  .sum_squares = sum_squares},
                 moved_bytes(a));
}

void EngineRun::answer(Pending& pending, const shm::CompletionFields& fields) noexcept {
  queues_.remove(pending, now_);
  NPU_FAILPOINT("engine.before_completion");
  count_answer(pending.rank, fields.code);
  writers_[pending.rank].publish(pending.s.ticket, fields);
}

void EngineRun::complete_group(Group& group, shm::CompletionFields fields,
                               uint64_t bytes) noexcept {
  const Gathering& g = group.matcher.head();
  fields.sequence = group.matcher.head_sequence();
  trace_end(group, fields, bytes);
  const bool of_world = group.id == 0 && journaled();
  if (of_world) memory_->journal.set_next_sequence(fields.sequence + 1);
  announce(told_of(group), fields);
  if (of_world) memory_->journal.end();
  for (uint32_t m = 0; m < group.size; ++m) answer(*g.by_member[m], fields);
  announced();
  group.matcher.pop(now_);
  memory_->collectives_done.fetch_add(1, std::memory_order_relaxed);
  NPU_FAILPOINT("engine.before_wake");
  ring_board(*memory_, group.rank_mask);
}

void EngineRun::complete_pair(const Pair& pair, shm::CompletionFields fields,
                              uint64_t bytes) noexcept {
  fields.sequence = pair.send->sequence;
  trace_end(pair, fields, bytes);
  const uint32_t mask = (1u << pair.send->rank) | (1u << pair.recv->rank);
  // The sender first: its entry holds an inline payload that `fields` may point to, and an entry
  // keeps its bytes until the coordinator takes another one.
  Told told{.rank_mask = mask};
  if (pair.send->rank == pair.recv->rank) told.second = pair.recv->s.ticket;
  told.tickets[pair.recv->rank] = pair.recv->s.ticket;
  told.tickets[pair.send->rank] = pair.send->s.ticket;
  announce(told, fields);
  answer(*pair.send, fields);
  answer(*pair.recv, fields);
  announced();
  memory_->collectives_done.fetch_add(1, std::memory_order_relaxed);
  ring_board(*memory_, mask);
}

void EngineRun::refuse_group(Group& group, Code code, int32_t culprit,
                             const std::string& text) noexcept {
  complete_group(group,
                 {.code = static_cast<uint8_t>(code), .culprit = culprit, .error_text = text});
}

void EngineRun::refuse_pair(const Pair& pair, Code code, int32_t culprit,
                            const std::string& text) noexcept {
  complete_pair(pair, {.code = static_cast<uint8_t>(code), .culprit = culprit, .error_text = text});
}

void EngineRun::refuse_alone(Pending& pending, Code code, const std::string& text) noexcept {
  answer(pending, {.code = static_cast<uint8_t>(code),
                   .culprit = static_cast<int32_t>(pending.rank),
                   .error_text = text});
  ring_board(*memory_, 1u << pending.rank);
}

Error EngineRun::abort(const RunFailure& failure) {
  aborted_ = true;
  Error error{failure.code, failure.complete ? failure.what : failure.what + " " + situation(),
              abort_exit(failure.code)};
  for (Running& running : pool_) {
    if (!running.busy) continue;
    // Unclaimed slices are taken out of reach and counted as done; those in progress end by
    // themselves.
    Active& a = running.active;
    const uint64_t left = a.next.exchange(a.slices, std::memory_order_acq_rel);
    if (left < a.slices) a.done.fetch_add(a.slices - left, std::memory_order_acq_rel);
  }
  trace_abort(failure);
  const int64_t pid =
      failure.culprit >= 0 ? memory_->ranks[static_cast<size_t>(failure.culprit)].pid : 0;
  publish_abort(*memory_, static_cast<uint8_t>(failure.code), failure.culprit, pid, error.message);
  return error;
}

bool EngineRun::quiet() const noexcept {
  return std::all_of(pool_.begin(), pool_.end(), [](const Running& running) {
    return !running.busy && running.active.users.load(std::memory_order_acquire) == 0;
  });
}

}  // namespace npu::daemon
