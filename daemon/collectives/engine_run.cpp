#include "daemon/collectives/engine_run.hpp"

#include <algorithm>
#include <bit>

#include "shm/base/clock.hpp"

namespace npu::daemon {
namespace {

using shm::Op;
using shm::Submission;

/// Below this total the coordinator alone is faster than waking a helper (a wake costs some 5 us).
constexpr uint64_t kShareBytes = 512 * 1024;
/// Entries taken from one rank in one round, so that no rank can keep the coordinator busy.
constexpr int kTakePerRound = 32;

uint32_t mask_of(uint32_t world) noexcept { return (1u << world) - 1; }

uint64_t parts_of(Op op, uint32_t ranks) noexcept {
  if (op == Op::kAllToAll) return uint64_t{ranks} * ranks;
  const bool per_rank =
      op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kScatter || op == Op::kGather;
  return per_rank ? ranks : 1;
}

}  // namespace

EngineRun::EngineRun(std::shared_ptr<RunMemory> memory,
                     std::span<const std::unique_ptr<Helper>> helpers, Parker& coordinator)
    : memory_(std::move(memory)),
      helpers_(helpers),
      coordinator_(coordinator),
      matcher_(memory_->world),
      ring_(memory_->world) {
  uint64_t arena = 0;
  for (uint32_t r = 0; r < memory_->world; ++r) {
    RankMemory& rank = memory_->ranks[r];
    readers_[r] = shm::SubmissionReader(rank.submit_page());
    writers_[r] = shm::CompletionWriter(rank.status_page());
    limits_[r] = {.generation = memory_->generation,
                  .arena_bytes = rank.arena.size(),
                  .world = memory_->world,
                  .rank = r};
    arena = std::max(arena, rank.arena.size());
  }
  block_count_ = arena / kBlockElements + 1;  // one-byte elements are the densest
  block_sums_ = std::make_unique<double[]>(block_count_);
  ring_owners_ = std::min<uint32_t>(memory_->world, 1 + static_cast<uint32_t>(helpers_.size()));
}

bool EngineRun::take_submissions(uint64_t now, RunFailure& failure) noexcept {
  for (uint32_t r = 0; r < memory_->world; ++r) {
    Submission submission;
    for (int i = 0; i < kTakePerRound && readers_[r].pop(submission); ++i) {
      const shm::Fault fault = shm::validate(submission, limits_[r]);
      const bool broken = fault == shm::Fault::kGeneration || fault == shm::Fault::kCommunicator;
      if (broken || !matcher_.add(r, submission, fault, now)) {
        failure = {Code::kInvalidArgument, static_cast<int32_t>(r),
                   fmt::format("rank {} (pid {}) broke the submission protocol ({})", r,
                               memory_->ranks[r].pid, broken ? fault_name(fault) : "sequence"),
                   false};
        return false;
      }
    }
  }
  return true;
}

bool EngineRun::has_submissions() const noexcept {
  for (uint32_t r = 0; r < memory_->world; ++r) {
    if (readers_[r].ready()) return true;
  }
  return false;
}

Active* EngineRun::free_active() noexcept {
  for (Active& a : pool_) {
    // Pairs with the helpers' release when they leave.
    if (a.users.load(std::memory_order_acquire) == 0) return &a;
  }
  return nullptr;
}

void EngineRun::prepare(Active& a, const Gathering& g) noexcept {
  const Submission& s = g.by_rank[0];
  a.op = static_cast<Op>(s.op);
  a.dtype = static_cast<DType>(s.dtype);
  a.ranks = memory_->world;
  a.root = s.root;
  a.count = s.count;
  a.element_bytes = dtype_size(a.dtype);
  a.scale = s.scale;
  a.slice_elements = kSliceBytes / a.element_bytes;
  a.parts = parts_of(a.op, a.ranks);
  a.part_slices = (a.count + a.slice_elements - 1) / a.slice_elements;
  a.slices = a.parts * a.part_slices;
  a.kernel =
      shm::op_reduces(a.op) ? &reduce_kernel(a.dtype, static_cast<ReduceOp>(s.reduce_op)) : nullptr;
  const bool ring = static_cast<shm::Algorithm>(s.algorithm) == shm::Algorithm::kRing;
  a.algorithm = ring && a.op == Op::kAllReduce ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
  for (uint32_t r = 0; r < memory_->world; ++r) {
    const Submission& of_rank = g.by_rank[r];
    std::byte* arena = memory_->ranks[r].arena.data();
    a.send[r] = arena + of_rank.send_offset;
    a.recv[r] = arena + of_rank.recv_offset;
  }
  a.block_sums =
      (s.flags & shm::kFlagSumSquares) != 0 && a.parts == 1 ? block_sums_.get() : nullptr;
  a.next.store(0, std::memory_order_relaxed);
  a.done.store(0, std::memory_order_relaxed);
  a.flags.store(0, std::memory_order_relaxed);
}

void EngineRun::share(Active& a) noexcept {
  if (a.count * a.element_bytes * a.ranks * a.parts < kShareBytes &&
      a.algorithm != shm::Algorithm::kRing)
    return;
  for (uint32_t t = 1; t <= helpers_.size(); ++t) {
    HelperTask task{.active = &a};
    if (a.algorithm == shm::Algorithm::kRing) {
      if (t >= ring_owners_) break;
      task.ring = &ring_;
      task.first_device = t * a.ranks / ring_owners_;
      task.end_device = (t + 1) * a.ranks / ring_owners_;
      task.next = t + 1 < ring_owners_ ? &helpers_[t]->parker() : &coordinator_;
    }
    a.users.fetch_add(1,
                      std::memory_order_relaxed);  // the queue's release publishes it with the task
    if (!helpers_[t - 1]->give(task)) {
      a.users.fetch_sub(1, std::memory_order_relaxed);
      NPU_CHECK(task.ring == nullptr);  // a ring has few tasks in flight; its queue cannot be full
    }
  }
}

bool EngineRun::start_ready() noexcept {
  if (aborted_ || current_ != nullptr || !matcher_.head_complete()) return false;
  const Gathering& g = matcher_.head();
  if (const auto rank = matcher_.faulty_rank()) {
    refuse_all(Code::kInvalidArgument, static_cast<int32_t>(*rank),
               fmt::format("{}: rank {} passed a bad {}", describe(g.by_rank[*rank]), *rank,
                           fault_name(g.faults[*rank])));
    return true;
  }
  if (const auto m = matcher_.mismatch()) {
    refuse_all(
        Code::kFailedPrecondition, static_cast<int32_t>(m->rank_b),
        fmt::format("ranks {} and {} differ in {}: {} against {}", m->rank_a, m->rank_b, m->field,
                    describe(g.by_rank[m->rank_a]), describe(g.by_rank[m->rank_b])));
    return true;
  }
  Active* a = free_active();
  if (a == nullptr) return false;
  prepare(*a, g);
  if (a->op == Op::kBarrier || a->count == 0) {
    complete_all({.algorithm = a->algorithm, .sequence = matcher_.head_sequence()});
    return true;
  }
  if ((g.by_rank[0].flags & shm::kFlagInline) != 0) {
    run_inline(*a);
    return true;
  }
  current_ = a;
  share(*a);
  return true;
}

void EngineRun::run_inline(Active& a) noexcept {
  const Gathering& g = matcher_.head();
  for (uint32_t r = 0; r < a.ranks; ++r) a.send[r] = g.by_rank[r].inline_payload.data();
  alignas(64) std::array<std::byte, shm::kInlineBytes> result{};
  double sum_squares = 0;
  ByProducts products;
  if (a.block_sums != nullptr) products.block_sum_squares = &sum_squares;
  fold_inline(a, result.data(), products);
  complete_all({.found_inf = products.input_nonfinite,
                .result_inf = products.result_nonfinite,
                .algorithm = a.algorithm,
                .sequence = matcher_.head_sequence(),
                .sum_squares = sum_squares,
                .inline_payload = result.data()});
}

bool EngineRun::advance() noexcept {
  if (current_ == nullptr) return false;
  Active& a = *current_;
  bool moved = false;
  if (a.algorithm == shm::Algorithm::kRing) {
    while (!aborted_ && ring_.inject(a)) moved = true;
    Parker* next = ring_owners_ > 1 ? &helpers_[0]->parker() : nullptr;
    moved |= serve_ring(ring_, a.ranks, 0, a.ranks / ring_owners_, next, nullptr);
    moved |= ring_.reap();
  } else if (!aborted_) {
    moved = run_one_slice(a);
  }
  if (a.finished()) {
    finish(a);
    moved = true;
  }
  return moved;
}

bool EngineRun::can_advance() const noexcept {
  if (current_ == nullptr) return !aborted_ && matcher_.head_complete();
  if (current_->finished()) return true;
  if (current_->algorithm != shm::Algorithm::kRing) {
    return !aborted_ && current_->next.load(std::memory_order_relaxed) < current_->slices;
  }
  if (ring_.has_finished()) return true;
  for (uint32_t d = 0; d < current_->ranks / ring_owners_; ++d) {
    if (ring_.has_work(d)) return true;
  }
  return false;
}

void EngineRun::finish(Active& a) noexcept {
  current_ = nullptr;
  if (a.algorithm == shm::Algorithm::kRing) {
    for (const auto& helper : helpers_) helper->parker().notify();  // they leave the ring
  }
  if (aborted_) return;
  double sum_squares = 0;
  if (a.block_sums != nullptr) {
    // Ascending blocks: the sum does not depend on slices or threads.
    const uint64_t blocks = (a.count + kBlockElements - 1) / kBlockElements;
    for (uint64_t b = 0; b < blocks; ++b) sum_squares += a.block_sums[b];
  }
  const uint32_t flags = a.flags.load(std::memory_order_relaxed);  // ordered by finished()
  complete_all({.found_inf = (flags & 1) != 0,
                .result_inf = (flags & 2) != 0,
                .algorithm = a.algorithm,
                .sequence = matcher_.head_sequence(),
                .sum_squares = sum_squares});
}

void EngineRun::complete_all(const shm::CompletionFields& fields) noexcept {
  const Gathering& g = matcher_.head();
  for (uint32_t r = 0; r < memory_->world; ++r) writers_[r].publish(g.by_rank[r].ticket, fields);
  matcher_.pop();
  memory_->collectives_done.fetch_add(1, std::memory_order_relaxed);
  ring_board(*memory_);
}

void EngineRun::refuse_all(Code code, int32_t culprit, const std::string& text) noexcept {
  complete_all({.code = static_cast<uint8_t>(code),
                .culprit = culprit,
                .sequence = matcher_.head_sequence(),
                .error_text = text});
}

bool EngineRun::overdue(uint64_t now, RunFailure& failure) const {
  if (aborted_ || current_ != nullptr) return false;
  const Gathering& g = matcher_.head();
  if (g.arrived_mask == 0) return false;
  const uint32_t missing = mask_of(memory_->world) & ~g.arrived_mask;
  if (missing == 0) return false;
  const Submission& first = g.of_first();
  if (const uint32_t left = missing & left_mask_; left != 0) {
    const auto rank = static_cast<uint32_t>(__builtin_ctz(left));
    failure = {Code::kAborted, static_cast<int32_t>(rank),
               fmt::format("{}: rank {} has left the run", describe(first), rank), true};
    return true;
  }
  if (first.timeout_ms == 0 || now < g.first_ns) return false;
  if (now - g.first_ns < uint64_t{first.timeout_ms} * 1'000'000) return false;
  const auto rank = static_cast<uint32_t>(__builtin_ctz(missing));
  const auto last = matcher_.last_of(rank);
  failure = {
      Code::kDeadlineExceeded, static_cast<int32_t>(rank),
      fmt::format("{}: rank{} {} did not arrive within {} s (rank {}: pid {}, last submitted "
                  "{}); rank{} {} waited",
                  describe(first), std::popcount(missing) > 1 ? "s" : "", rank_list(missing),
                  first.timeout_ms / 1000.0, rank, memory_->ranks[rank].pid,
                  last ? fmt::format("seq {}", *last) : "nothing",
                  std::popcount(g.arrived_mask) > 1 ? "s" : "", rank_list(g.arrived_mask)),
      true};
  return true;
}

std::string EngineRun::situation() const {
  const Gathering& g = matcher_.head();
  if (g.arrived_mask == 0) {
    return fmt::format("before collective seq {}", matcher_.head_sequence());
  }
  return fmt::format("during {} ({})", describe(g.of_first()),
                     current_ != nullptr
                         ? std::string("running")
                         : fmt::format("arrived: ranks {}", rank_list(g.arrived_mask)));
}

Error EngineRun::abort(const RunFailure& failure) {
  aborted_ = true;
  Error error{failure.code, failure.complete ? failure.what : failure.what + " " + situation(),
              default_exit(failure.code)};
  if (current_ != nullptr) {
    // Unclaimed slices are taken out of reach and counted as done; those in progress end by
    // themselves.
    const uint64_t left = current_->next.exchange(current_->slices, std::memory_order_acq_rel);
    if (left < current_->slices)
      current_->done.fetch_add(current_->slices - left, std::memory_order_acq_rel);
  }
  const int64_t pid =
      failure.culprit >= 0 ? memory_->ranks[static_cast<size_t>(failure.culprit)].pid : 0;
  publish_abort(*memory_, static_cast<uint8_t>(failure.code), failure.culprit, pid, error.message);
  return error;
}

bool EngineRun::quiet() const noexcept {
  if (current_ != nullptr) return false;
  return std::all_of(pool_.begin(), pool_.end(),
                     [](const Active& a) { return a.users.load(std::memory_order_acquire) == 0; });
}

}  // namespace npu::daemon
