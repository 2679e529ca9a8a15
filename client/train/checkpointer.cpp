#include "client/train/checkpointer.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "shm/base/failpoint.hpp"
#include "shm/futex.hpp"

namespace npu::client {
namespace {

// Ranks are at most a commit and a check apart, so that a table is read before it is used again.
constexpr uint64_t kOpenCommits = 4;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Of what the store said: another attempt, with new files, may succeed.
bool may_pass(const Error& error) {
  const bool torn = error.code == Code::kDataLoss && error.exit == Exit::kBadData;
  return !torn && error.code != Code::kInvalidArgument;
}

}  // namespace

uint64_t Checkpointer::bytes(const model::Network& network, const CheckpointPlan& plan) {
  const uint64_t stages =
      plan.stages ? kStages * SnapshotStage::bytes(network, plan.parts.average) : 0;
  const uint64_t rows = plan.compares ? kOpenCommits * ReplicaRows::bytes(network, plan.parts) : 0;
  return stages + rows;
}

Checkpointer::Checkpointer(model::Network& network, const WeightAverage* average, Device& device,
                           model::StateExporter exporter)
    : network_(network), average_(average), device_(device), exporter_(std::move(exporter)) {}

Result<std::unique_ptr<Checkpointer>> Checkpointer::create(model::Network& network,
                                                           const WeightAverage* average,
                                                           ArenaAllocator& arena, Device& device,
                                                           const CheckpointPlan& plan) {
  using Use = model::StateExporter::Use;
  NPU_TRY(model::StateExporter exporter,
          model::StateExporter::create(network, plan.stages ? Use::kCopies : Use::kPlaces));
  std::unique_ptr<Checkpointer> made(
      new Checkpointer(network, average, device, std::move(exporter)));
  for (size_t i = 0; plan.stages && i < kStages; ++i) {
    NPU_TRY(SnapshotStage stage, SnapshotStage::place(network, arena, plan.parts.average));
    made->stages_.push_back(stage);
  }
  for (uint64_t i = 0; plan.compares && i < kOpenCommits; ++i) {
    NPU_TRY(ReplicaRows rows, ReplicaRows::place(network, arena, plan.parts));
    made->rows_.push_back(rows);
  }
  made->buffers_.resize(network.bn_buffers().size());
  made->batches_tracked_.resize(network.state().size());
  made->source_ = {.parameters = network.parameters_flat(),
                   .momentum = network.momentum_flat(),
                   .buffers = made->buffers_,
                   .batches_tracked = made->batches_tracked_,
                   .average_parameters = {},
                   .average_buffers = {}};
  if (average != nullptr) {
    made->average_buffers_.resize(average->buffers().size());
    made->source_.average_parameters = average->parameters();
    made->source_.average_buffers = made->average_buffers_;
  }
  if (!plan.stages && !plan.compares) return made;  // nothing is ever started
  made->helper_ = std::thread([raw = made.get()] { raw->help(); });
  ::pthread_setname_np(made->helper_.native_handle(), "npu-snapshot");
  return made;
}

Checkpointer::~Checkpointer() {
  if (!helper_.joinable()) return;
  wait_until_idle();
  enter(kEnding);
  helper_.join();
}

/// Batch norm's statistics move with every forward pass; they are small.
void Checkpointer::copy_moving_state() {
  std::ranges::copy(network_.bn_buffers(), buffers_.begin());
  if (average_ != nullptr) std::ranges::copy(average_->buffers(), average_buffers_.begin());
  for (size_t i = 0; i < batches_tracked_.size(); ++i) {
    if (network_.state()[i].kind == model::StateKind::kBatchesTracked) {
      batches_tracked_[i] = network_.batches_tracked(i);
    }
  }
}

void Checkpointer::start(const Request& request) {
  wait_until_idle();
  copy_moving_state();
  commit_ = {};
  commit_.step = request.step;
  commit_.keep = request.keep;
  commit_.best = request.best ? 1 : 0;
  commit_.check_only = request.check_only ? 1 : 0;
  commit_.memory = request.to == SaveTo::kMemory ? 1 : 0;
  if (!request.check_only && !stages_.empty()) {
    NPU_CHECK(staged() < kStages);
    stages_[saves_ % kStages].set_state(request.state_json);
  }
  current_ = &pending_.emplace_back();
  current_->step = request.step;
  current_->best = request.best;
  current_->check_only = request.check_only;
  current_->to = request.to;
  current_->stall_ms = ms_since(request.begin);
  enter(kCopying);
}

/// Pairs with the acquires in help(), settle() and wait_while().
void Checkpointer::enter(uint32_t state) noexcept {
  busy_.store(state, std::memory_order_release);
  shm::futex_wake(busy_, 1);
}

void Checkpointer::wait_while(uint32_t state) noexcept {
  if (busy_.load(std::memory_order_acquire) != state) return;
  const auto begin = Clock::now();
  while (busy_.load(std::memory_order_acquire) == state) {
    shm::futex_wait(busy_, state, shm::kWaitSlice);
  }
  current_->stall_ms += ms_since(begin);
}

void Checkpointer::wait_until_idle() noexcept {
  wait_while(kCopying);
  wait_while(kHashing);
}

void Checkpointer::help() {
  for (;;) {
    const uint32_t state = busy_.load(std::memory_order_acquire);
    if (state == kEnding) return;
    if (state == kIdle) {
      shm::futex_wait(busy_, kIdle, 10 * shm::kWaitSlice);
      continue;
    }
    hand_over();
    enter(kIdle);
  }
}

/// On the helper: everything that takes long, then the message.
void Checkpointer::hand_over() {
  const auto entries = network_.state();
  shm::CheckpointCommit& commit = commit_;
  const bool stages = commit.check_only == 0 && !stages_.empty();
  SnapshotStage* const stage = stages ? &stages_[saves_ % kStages] : nullptr;
  if (stage != nullptr) stage->copy(exporter_, entries, source_);
  if (!rows_.empty()) rows_[commits_ % rows_.size()].fill(exporter_, entries, source_, commit);
  enter(kHashing);
  if (stage != nullptr) {
    const shm::CheckpointCommit told = stage->describe(entries);
    commit.weights_digest = told.weights_digest;
    commit.table_offset = told.table_offset;
    commit.table_count = told.table_count;
    commit.state_offset = told.state_offset;
    commit.state_bytes = told.state_bytes;
  }
  if (commit.check_only == 0) ++saves_;
  ++commits_;
  NPU_FAILPOINT("train.before_commit");
  current_->future = device_.commit_checkpoint(commit);
  NPU_FAILPOINT("train.after_commit");
}

size_t Checkpointer::staged() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(pending_, [](const Pending& p) { return !p.check_only; }));
}

Result<void> Checkpointer::make_room(EventSink* events) {
  NPU_TRY_VOID(emit(events, false));
  while (staged() >= kStages) {
    wait_until_idle();
    Pending oldest = std::move(pending_.front());
    pending_.pop_front();
    NPU_TRY_VOID(take(oldest, events));
  }
  return {};
}

Result<void> Checkpointer::emit(EventSink* events, bool wait) {
  if (wait) wait_until_idle();
  while (!pending_.empty()) {
    // The newest one is not in the daemon's hands yet.
    if (pending_.size() == 1 && busy_.load(std::memory_order_acquire) != kIdle) break;
    const auto& future = pending_.front().future;
    if (!wait && future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) break;
    Pending oldest = std::move(pending_.front());
    pending_.pop_front();
    NPU_TRY_VOID(take(oldest, events));
  }
  return {};
}

Result<void> Checkpointer::take(Pending& over, EventSink* events) {
  const auto report = over.future.get();
  if (!report) {
    if (const auto end = device_.failure()) return tl::unexpected(*end);
    if (over.check_only || !may_pass(report.error())) return tl::unexpected(report.error());
  }
  if (over.check_only) return {};
  if (over.to == SaveTo::kMemory) {
    take_memory(over, report, events);
    return {};
  }
  if (!report) return failed(over.step, report.error(), events);
  failures_ = 0;
  failure_.reset();
  newest_ = report->path;
  if (events != nullptr) {
    events->on_event(CheckpointEvent{report->step, over.best, report->path, report->bytes,
                                     over.stall_ms, report->durable_ms});
  }
  return {};
}

/// What did not fit into memory is on disk sooner or later; it is said once, not every few steps.
void Checkpointer::take_memory(const Pending& over, const Result<CheckpointReport>& report,
                               EventSink* events) {
  const bool said = std::exchange(memory_failed_, !report);
  if (events == nullptr) return;
  if (report) {
    events->on_event(
        MemoryCheckpointEvent{report->step, report->bytes, over.stall_ms, report->durable_ms});
  } else if (!said) {
    events->on_event(WarningEvent{
        over.step, fmt::format("checkpoint of step {} in memory failed: {}; training goes on, a "
                               "failure costs the steps since the last one that worked",
                               over.step, report.error().message)});
  }
}

Result<void> Checkpointer::failed(int64_t step, const Error& error, EventSink* events) {
  ++failures_;
  failure_ = error;
  failed_step_ = step;
  if (events == nullptr) return {};
  const std::string saved = newest_.empty() ? "no checkpoint of this launch is durable yet"
                                            : "the newest durable one is '" + newest_ + "'";
  std::string text = fmt::format("checkpoint of step {} failed: {}; training goes on, {}", step,
                                 error.message, saved);
  if (failures_ > 1) {
    text = fmt::format("degraded, {} checkpoints in a row failed: ", failures_) + text;
  }
  events->on_event(WarningEvent{step, std::move(text)});
  return {};
}

Result<void> Checkpointer::verdict() const {
  if (!failure_) return {};
  return fail_exit(failure_->code, failure_->exit,
                   "the last checkpoint, of step {}, could not be written: {}; {}; make the store "
                   "writable or give it room, then launch again",
                   failed_step_, failure_->message,
                   newest_.empty() ? "no checkpoint of this launch is durable"
                                   : "the newest durable one is '" + newest_ + "'");
}

}  // namespace npu::client
