#include "client/train/report.hpp"

#include <limits>

#include "client/train/loss_scale.hpp"

namespace npu::client {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

const char* schedule_name(config::ScheduleKind kind) {
  switch (kind) {
    case config::ScheduleKind::kStep:
      return "step";
    case config::ScheduleKind::kMultistep:
      return "multistep";
    case config::ScheduleKind::kCosine:
      return "cosine";
    case config::ScheduleKind::kConstant:
      return "constant";
    case config::ScheduleKind::kLinear:
      return "linear";
    case config::ScheduleKind::kExponential:
      return "exponential";
  }
  return "unknown";
}

const char* algorithm_name(config::Algorithm algorithm) {
  switch (algorithm) {
    case config::Algorithm::kAuto:
      return "auto";
    case config::Algorithm::kRing:
      return "ring";
    case config::Algorithm::kDirect:
      return "direct";
  }
  return "unknown";
}

}  // namespace

StartEvent start_event(Replica& replica, const std::string& data, int64_t steps_per_epoch,
                       const std::optional<std::string>& from, const TrainState& state) {
  const config::Job& job = replica.job();
  StartEvent e;
  e.run = job.name;
  e.arch = job.model.arch;
  e.parameters = replica.network().parameter_count();
  e.precision = precision_text(job.precision);
  e.algorithm = algorithm_name(job.collectives.algorithm);
  e.daemon = replica.socket();
  e.data = data;
  e.world = job.world();
  e.devices = job.devices;
  e.global_batch = job.train.batch_size;
  e.rank_batch = job.rank_batch();
  e.steps_per_epoch = steps_per_epoch;
  e.epochs = job.train.epochs;
  e.eval_every = job.train.eval_every;
  e.lr = job.optimizer.lr;
  e.schedule = schedule_name(job.schedule.kind);
  e.seed = job.seed;
  if (from) {
    e.resumed_from = *from;
    e.resumed_step = state.global_step + 1;
  } else {
    e.pretrained = job.model.pretrained;
  }
  e.notes = replica.notes();
  e.warnings = replica.warnings();
  return e;
}

EpochEvent epoch_event(int epoch, const EpochSums& sums, const EpochResult& trained,
                       const Validated& validated, bool best) {
  const auto samples = static_cast<double>(sums.samples);
  EpochEvent e;
  e.epoch = epoch;
  e.train_loss = sums.loss / samples;
  e.train_acc1 = 100 * sums.top1 / samples;
  e.val_loss = e.val_acc1 = e.val_acc5 = kUnknown;
  if (const auto& val = validated.weights) {
    e.val_loss = val->loss;
    e.val_acc1 = val->acc1;
    e.val_acc5 = val->acc5;
    e.val_samples = val->samples;
  }
  if (const auto& average = validated.average) {
    e.val_ema_loss = average->loss;
    e.val_ema_acc1 = average->acc1;
    e.val_ema_acc5 = average->acc5;
  }
  e.img_s = trained.seconds > 0 ? static_cast<double>(trained.images) / trained.seconds : 0;
  e.seconds = trained.seconds;
  e.best = best;
  return e;
}

EvalEvent eval_event(int epoch, const ValResult& weights, const std::optional<ValResult>& average) {
  EvalEvent e;
  e.epoch = epoch;
  e.loss = weights.loss;
  e.acc1 = weights.acc1;
  e.acc5 = weights.acc5;
  e.samples = weights.samples;
  if (average) {
    e.ema_loss = average->loss;
    e.ema_acc1 = average->acc1;
    e.ema_acc5 = average->acc5;
  }
  return e;
}

}  // namespace npu::client
