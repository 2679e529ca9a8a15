#include "client/bench/checkpoint_bench.hpp"

#include <algorithm>
#include <vector>

#include "client/bench/job_ranks.hpp"
#include "client/bench/random_job.hpp"

namespace npu::client {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Checkpoints and steps of rank 0; the first checkpoint, what comes before it and the one at the
/// job's end are left out.
class CheckpointWatch final : public EventSink {
 public:
  explicit CheckpointWatch(const CheckpointBenchOptions& options) : options_(options) {}

  void on_event(const Event& event) override {
    if (const auto* checkpoint = std::get_if<CheckpointEvent>(&event)) {
      // The last one has no step to hide behind.
      if (checkpoint->step <= options_.every || checkpoint->step % options_.every != 0) return;
      stall_ms_.push_back(checkpoint->stall_ms);
      durable_ms_.push_back(checkpoint->durable_ms);
      bytes_ = checkpoint->bytes;
    } else if (const auto* warning = std::get_if<WarningEvent>(&event)) {
      warning_ = warning->message;
    } else if (const auto* step = std::get_if<StepEvent>(&event)) {
      if (step->step <= options_.every + 1) return;
      const double ms = 1e3 * (step->batch_s - step->data_s);
      // Since the last step ended: what a save held up is in the step behind it.
      (step->step % options_.every == 1 ? after_ms_ : other_ms_).push_back(ms);
    }
  }

  [[nodiscard]] Result<CheckpointBenchResult> result() {
    if (!warning_.empty()) return fail_exit(Code::kInternal, Exit::kIo, "{}", warning_);
    if (std::cmp_not_equal(stall_ms_.size(), options_.checkpoints)) {
      return fail(Code::kInternal, "bench checkpoint: {} checkpoints were timed; expected {}",
                  stall_ms_.size(), options_.checkpoints);
    }
    CheckpointBenchResult r;
    r.stall_max_ms = *std::ranges::max_element(stall_ms_);
    r.stall_ms = median(std::move(stall_ms_));
    r.durable_ms = median(std::move(durable_ms_));
    r.bytes = bytes_;
    r.step_ms = median(std::move(other_ms_));
    r.slow_ms = median(std::move(after_ms_)) - r.step_ms;
    return r;
  }

 private:
  const CheckpointBenchOptions& options_;
  std::vector<double> stall_ms_, durable_ms_, after_ms_, other_ms_;
  uint64_t bytes_ = 0;
  std::string warning_;
};

}  // namespace

config::Job checkpoint_bench_job(const CheckpointBenchOptions& o) {
  config::Job job = random_job({.name = "bench-checkpoint",
                                .arch = o.arch,
                                .classes = o.classes,
                                .ranks = static_cast<uint32_t>(o.ranks),
                                .batch = o.batch,
                                .steps = o.every * (o.checkpoints + 1) + 1,
                                .image_size = o.image_size,
                                .channels = o.channels});
  job.train.eval_every = job.train.epochs;  // no validation, and nothing is the best
  job.checkpoint.every_steps = o.every;
  job.checkpoint.keep = 1;
  return job;
}

Result<CheckpointBenchResult> run_checkpoint_bench(const CheckpointBenchOptions& o,
                                                   const std::string& socket) {
  CheckpointWatch watch(o);
  NPU_TRY_VOID(
      run_job_ranks(checkpoint_bench_job(o), socket, o.threads, "npu bench checkpoint", watch));
  return watch.result();
}

}  // namespace npu::client
