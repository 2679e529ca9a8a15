#include "client/train/recipe.hpp"

#include <algorithm>
#include <cmath>

namespace npu::client {
namespace {

using config::Job;

bool is_tf(const Job& job) noexcept { return job.profile == config::Profile::kTf; }

model::ScheduleForm form_of(config::ScheduleKind kind) {
  switch (kind) {
    case config::ScheduleKind::kStep:
      return model::ScheduleForm::kStep;
    case config::ScheduleKind::kMultistep:
      return model::ScheduleForm::kMultistep;
    case config::ScheduleKind::kCosine:
      return model::ScheduleForm::kCosine;
    case config::ScheduleKind::kConstant:
      return model::ScheduleForm::kConstant;
    case config::ScheduleKind::kLinear:
      return model::ScheduleForm::kLinear;
    case config::ScheduleKind::kExponential:
      return model::ScheduleForm::kExponential;
  }
  return model::ScheduleForm::kConstant;
}

model::WarmupForm warmup_of(config::WarmupForm form) {
  switch (form) {
    case config::WarmupForm::kLinear:
      return model::WarmupForm::kFromFactor;
    case config::WarmupForm::kNext:
      return model::WarmupForm::kNextEpoch;
    case config::WarmupForm::kConstant:
      return model::WarmupForm::kConstant;
  }
  return model::WarmupForm::kFromFactor;
}

model::Schedule schedule_of(const Job& job) {
  model::Schedule s;
  s.form = form_of(job.schedule.kind);
  s.base_lr = job.optimizer.lr;
  s.epochs = job.train.epochs;
  s.warmup_epochs = job.schedule.warmup_epochs;
  s.warmup = warmup_of(job.schedule.warmup_form);
  s.warmup_factor = is_tf(job) ? 0 : job.schedule.warmup_start;
  s.min_lr = job.schedule.end_lr;
  s.step_size = job.schedule.step_size;
  s.gamma = job.schedule.gamma;
  s.milestones = job.schedule.milestones;
  return s;
}

/// The same drops as schedule_of's, by TensorFlow's rules.
model::TfSchedule tf_schedule_of(const Job& job, int64_t steps_per_epoch) {
  model::TfSchedule s{.base_lr = job.optimizer.lr,
                      .steps_per_epoch = steps_per_epoch,
                      .warmup_epochs = job.schedule.warmup_epochs,
                      .boundaries = job.schedule.milestones,
                      .multipliers = {1.0}};
  if (job.schedule.kind == config::ScheduleKind::kStep) {
    s.boundaries.clear();
    for (int64_t e = job.schedule.step_size; e < job.train.epochs; e += job.schedule.step_size) {
      s.boundaries.push_back(static_cast<int>(e));
    }
  }
  for (size_t i = 1; i <= s.boundaries.size(); ++i) {
    s.multipliers.push_back(std::pow(job.schedule.gamma, static_cast<double>(i)));
  }
  return s;
}

}  // namespace

model::NetworkConfig network_config(const Job& job, int threads, const data::ImageShape& shape) {
  model::NetworkConfig c;
  c.arch = job.model.arch;
  c.num_classes = job.model.num_classes;
  c.channels = shape.channels;
  c.height = shape.height;
  c.width = shape.width;
  c.batch = job.rank_batch();
  c.zero_init_residual = job.model.zero_init_residual;
  c.init = is_tf(job) ? model::InitForm::kTf : model::InitForm::kPytorch;
  c.label_smoothing = static_cast<float>(job.train.label_smoothing);
  if (job.precision.amp) {
    c.dtype = job.precision.dtype == "bf16" ? DType::kBFloat16 : DType::kFloat16;
  }
  c.threads = threads;
  c.bucket_bytes = job.collectives.bucket_bytes;
  c.first_bucket_bytes = std::min(c.first_bucket_bytes, c.bucket_bytes);
  return c;
}

model::SgdParams sgd_params(const Job& job) {
  model::SgdParams p;
  p.lr = static_cast<float>(job.optimizer.lr);
  p.momentum = static_cast<float>(job.optimizer.momentum);
  p.weight_decay = static_cast<float>(job.optimizer.weight_decay);
  p.nesterov = job.optimizer.nesterov;
  p.decay = job.optimizer.decay_bn ? model::DecayScope::kAll : model::DecayScope::kWeightsOnly;
  if (is_tf(job)) {
    p.weight_decay *= 2;
    p.decay = model::DecayScope::kNoBatchNorm;
    p.form = model::MomentumForm::kTf;
  }
  return p;
}

bool saves_checkpoints(const Job& job) noexcept {
  return !job.train.evaluate && (job.checkpoint.every_epochs > 0 || job.checkpoint.every_steps > 0);
}

bool keeps_in_memory(const Job& job) noexcept {
  return !job.train.evaluate && job.checkpoint.memory_every_steps > 0;
}

ReductionForm reduction_form(const Job& job) {
  const int passes = job.train.accumulate;
  if (!is_tf(job)) return {ReduceOp::kMean, 1.0F / static_cast<float>(passes)};
  return {ReduceOp::kSum, 1.0F / static_cast<float>(job.world() * passes)};
}

Result<LearningRate> LearningRate::of(const Job& job, int64_t steps_per_epoch) {
  LearningRate rate;
  rate.schedule_ = schedule_of(job);
  const auto kind = job.schedule.kind;
  rate.is_piecewise_ = is_tf(job) && (kind == config::ScheduleKind::kStep ||
                                      kind == config::ScheduleKind::kMultistep);
  if (rate.is_piecewise_) {
    rate.piecewise_ = tf_schedule_of(job, steps_per_epoch);
  } else {
    NPU_TRY_VOID(model::check_schedule(rate.schedule_));
  }
  rate.by_step_ = is_tf(job) || job.schedule.per_step;
  rate.steps_per_epoch_ = steps_per_epoch;
  return rate;
}

double LearningRate::at(int epoch, int64_t step) const noexcept {
  if (is_piecewise_) return model::learning_rate(piecewise_, epoch * steps_per_epoch_ + step);
  const double fraction = static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
  return model::learning_rate(schedule_, by_step_ ? epoch + fraction : epoch);
}

}  // namespace npu::client
