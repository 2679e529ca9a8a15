#include "client/train/epoch.hpp"

#include <array>
#include <cmath>

#include "client/data/sampler.hpp"
#include "client/train/stepper.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::client {
namespace {

using config::Job;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Timing {
  TimeMeter batch, data;
};

void emit_step(Replica& replica, const EpochOptions& o, double lr, const TrainState& s,
               const StepMetrics& m, const Timing& timing, EventSink& events) {
  if (replica.rank() != 0) return;
  const int64_t index = s.step_in_epoch - 1;
  const bool display = index % replica.job().train.print_freq == 0;
  const double batch = replica.job().train.batch_size;
  const auto samples = static_cast<double>(s.sums.samples);
  StepEvent e;
  e.epoch = o.epoch;
  e.step = s.global_step;
  e.step_in_epoch = s.step_in_epoch;
  e.steps_per_epoch = o.steps_per_epoch;
  e.display = display;
  e.loss = m.loss;
  e.loss_avg = s.sums.loss / samples;
  e.acc1 = 100 * m.top1 / batch;
  e.acc1_avg = 100 * s.sums.top1 / samples;
  e.acc5 = 100 * m.top5 / batch;
  e.acc5_avg = 100 * s.sums.top5 / samples;
  e.lr = lr;
  e.scale = m.scale;
  e.batch_s = timing.batch.value;
  e.batch_avg_s = timing.batch.average();
  e.data_s = timing.data.value;
  e.data_avg_s = timing.data.average();
  e.img_s = batch / timing.batch.average();
  events.on_event(e);
  replica.device().report_step({.epoch = static_cast<uint64_t>(o.epoch),
                                .loss = m.loss,
                                .top1 = m.top1 / batch,
                                .top5 = m.top5 / batch,
                                .learning_rate = lr,
                                .loss_scale = m.scale,
                                .skipped = m.skipped,
                                .samples = static_cast<uint64_t>(batch),
                                .data_wait_s = timing.data.value});
}

/// All passes of a step; returns the seconds that were spent waiting for data.
Result<double> run_passes(Stepper& stepper, data::BatchLoader& loader, int passes) {
  double waited = 0;
  for (int i = 0; i < passes; ++i) {
    const auto begin = Clock::now();
    NPU_TRY(const data::Batch batch, loader.next());
    waited += seconds_since(begin);
    NPU_TRY_VOID(stepper.pass(batch));
    loader.release(batch);
  }
  return waited;
}

Result<data::Pass> train_pass(const Replica& replica, const Feed& feed, int epoch,
                              int64_t first_step) {
  const Job& job = replica.job();
  const data::SampleSource& set = *feed.data.train;
  const data::ShardKey key{job.world(), replica.rank(), job.seed, epoch};
  NPU_TRY(data::BatchPlan plan,
          data::train_plan(set.size(), key, job.rank_batch(), first_step, job.train.accumulate));
  return data::Pass{&set, std::move(plan), epoch};
}

data::Pass val_pass(const Replica& replica, const Feed& feed, int epoch) {
  const Job& job = replica.job();
  const data::SampleSource& set = *feed.data.val;
  return {&set, data::val_plan(set.size(), job.world(), replica.rank(), job.rank_batch()), epoch};
}

Result<void> announce_next(const Replica& replica, const Feed& feed, const EpochOptions& o) {
  if (o.validation_follows) {
    feed.loader.announce(val_pass(replica, feed, o.epoch));
    return {};
  }
  NPU_TRY(data::Pass pass, train_pass(replica, feed, o.epoch + 1, 0));
  feed.loader.announce(std::move(pass));
  return {};
}

void add_metrics(TrainState& state, const StepMetrics& metrics, int batch) {
  if (metrics.skipped) ++state.skipped_steps;
  // A skipped step may have no loss to speak of; it must not spoil the epoch's average.
  if (!std::isfinite(metrics.loss)) return;
  state.sums.loss += metrics.loss * batch;
  state.sums.top1 += metrics.top1;
  state.sums.top5 += metrics.top5;
  state.sums.samples += batch;
}

/// For tests of the replica check: one bit of one weight, as a damaged memory would have it. A high
/// one of the mantissa, which rounding does not swallow in the steps that follow.
void flip_a_bit(Replica& replica) {
  const std::span<float> weights = replica.network().parameters_flat();
  reinterpret_cast<std::byte*>(&weights[weights.size() / 2])[2] ^= std::byte{0x10};
}

}  // namespace

Result<EpochResult> train_epoch(Replica& replica, const Feed& feed, const EpochOptions& o,
                                TrainState& state, EventSink& events,
                                const std::function<Result<void>(SaveTo)>& save) {
  const Job& job = replica.job();
  NPU_TRY(data::Pass pass, train_pass(replica, feed, o.epoch, state.step_in_epoch));
  feed.loader.begin(std::move(pass));
  NPU_TRY_VOID(announce_next(replica, feed, o));
  Stepper stepper(replica, job.precision.amp ? state.scaler : std::nullopt);
  EpochResult result;
  Timing timing;
  const auto begin = Clock::now();
  auto step_begin = begin;
  while (state.step_in_epoch < o.steps_per_epoch) {
    if (replica.stop_requested()) stepper.request_stop();
    NPU_TRY(const double waited, run_passes(stepper, feed.loader, job.train.accumulate));
    timing.data.add(waited);
    const double lr = o.lr(state.step_in_epoch);
    NPU_TRY(const StepMetrics metrics, stepper.finish(lr, state.global_step + 1));
    timing.batch.add(seconds_since(step_begin));
    step_begin = Clock::now();
    ++state.step_in_epoch;
    ++state.global_step;
    if (NPU_FAILPOINT_ASKED("train.flip_a_bit", failpoint::Action::kGarbage)) flip_a_bit(replica);
    if (job.precision.amp) state.scaler = stepper.scaler();
    add_metrics(state, metrics, job.train.batch_size);
    result.images += job.train.batch_size;
    replica.device().set_progress(static_cast<uint64_t>(state.global_step));
    if (metrics.skipped && replica.rank() == 0) {
      events.on_event(OverflowEvent{state.global_step, static_cast<double>(state.scaler->scale)});
    }
    emit_step(replica, o, lr, state, metrics, timing, events);
    NPU_TRY_VOID(replica.emit_commits(events, false));
    result.stopped = state.global_step >= o.stop_at_step;
    result.interrupted = metrics.stop;
    if (result.stopped || result.interrupted) break;
    const bool goes_on = state.step_in_epoch < o.steps_per_epoch;
    if (goes_on && is_due(o.checkpoint_every_steps, state.global_step)) {
      NPU_TRY_VOID(save(SaveTo::kDisk));  // the replicas are compared there, too
    } else if (goes_on && is_due(o.memory_every_steps, state.global_step)) {
      NPU_TRY_VOID(save(SaveTo::kMemory));
    } else if (is_due(job.train.check_replicas_every, state.global_step)) {
      replica.check(state.global_step);
    }
  }
  result.seconds = seconds_since(begin);
  return result;
}

Result<ValResult> validate(Replica& replica, const Feed& feed, int epoch, EventSink& events) {
  const Job& job = replica.job();
  NPU_TRY_VOID(replica.enter_validation());
  data::Pass pass = val_pass(replica, feed, epoch);
  const auto steps = static_cast<int64_t>(pass.plan.batches());
  const size_t elements = feed.data.shape().elements();
  feed.loader.begin(std::move(pass));
  if (epoch + 1 < job.train.epochs) {
    NPU_TRY(data::Pass following, train_pass(replica, feed, epoch + 1, 0));
    feed.loader.announce(std::move(following));
  }
  model::Network& network = replica.network();
  model::LossAndHits sums;
  int64_t seen = 0;
  TimeMeter time;
  auto begin = Clock::now();
  const auto start = begin;
  for (int64_t step = 0; step < steps; ++step) {
    NPU_TRY(const data::Batch batch, feed.loader.next());
    const auto n = static_cast<size_t>(batch.n);
    if (n == 0) {  // all of its images were left out
      feed.loader.release(batch);
      continue;
    }
    NPU_TRY(const auto logits, network.forward_eval({batch.images, n * elements}, batch.n));
    NPU_TRY(const model::LossAndHits local, network.evaluate(logits, {batch.labels, n}));
    feed.loader.release(batch);
    sums += local;
    seen += batch.n;
    time.add(seconds_since(begin));
    begin = Clock::now();
    if (replica.rank() != 0) continue;
    const auto total = static_cast<double>(seen);
    const auto count = static_cast<double>(n);
    ValStepEvent e;
    e.epoch = epoch;
    e.step_in_epoch = step + 1;
    e.steps_per_epoch = steps;
    e.display = step % job.train.print_freq == 0;
    e.loss = local.loss_sum / count;
    e.loss_avg = sums.loss_sum / total;
    e.acc1 = 100 * static_cast<double>(local.top1) / count;
    e.acc1_avg = 100 * static_cast<double>(sums.top1) / total;
    e.acc5 = 100 * static_cast<double>(local.top5) / count;
    e.acc5_avg = 100 * static_cast<double>(sums.top5) / total;
    e.batch_s = time.value;
    e.batch_avg_s = time.average();
    events.on_event(e);
  }
  replica.leave_validation();
  // Five numbers travel inside the descriptor; counts are exact in fp64.
  std::array<double, 5> all = {sums.loss_sum, static_cast<double>(sums.top1),
                               static_cast<double>(sums.top5), static_cast<double>(seen),
                               replica.stop_requested() ? 1.0 : 0.0};
  NPU_TRY(Work work, replica.world().all_reduce(all.data(), all.data(), all.size(), DType::kFloat64,
                                                ReduceOp::kSum, replica.collective_options()));
  NPU_TRY_VOID(work.wait());
  return ValResult{.loss = all[0] / all[3],
                   .acc1 = 100 * all[1] / all[3],
                   .acc5 = 100 * all[2] / all[3],
                   .samples = static_cast<int64_t>(all[3]),
                   .seconds = seconds_since(start),
                   .interrupted = all[4] > 0};
}

}  // namespace npu::client
