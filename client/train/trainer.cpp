#include "client/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "client/data/sampler.hpp"
#include "client/train/epoch.hpp"
#include "client/train/loss_scale.hpp"
#include "client/train/recipe.hpp"
#include "client/train/replica.hpp"
#include "config/load.hpp"
#include "shm/format/digest.hpp"

namespace npu::client {
namespace {

using config::Job;

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

Result<void> refuse_unsupported(const Job& job) {
  const auto missing = config::unsupported(job);
  if (missing.empty()) return {};
  std::string text;
  for (const std::string& m : missing) text += (text.empty() ? "" : ", ") + m;
  return fail_exit(Code::kUnimplemented, Exit::kBadConfig,
                   "run job '{}': not supported by this version: {}", job.name, text);
}

/// More threads than processors only get in each other's way.
int loader_threads(const Job& job) {
  return data::workers_per_rank(std::min(job.data.workers, data::available_cores()), job.world());
}

/// The whole job of one rank, once everything is in place.
class Trainer {
 public:
  Trainer(Replica& replica, const Feed& feed, EventSink& events)
      : replica_(replica), job_(replica.job()), feed_(feed), events_(events) {}

  [[nodiscard]] Result<void> run(const RankOptions& options) {
    NPU_TRY_VOID(model::check_sgd(sgd_params(job_)));
    NPU_TRY(steps_per_epoch_, data::train_steps(feed_.data.train->size(), job_.world(),
                                                job_.rank_batch(), job_.train.accumulate));
    NPU_TRY(schedule_, LearningRate::of(job_, steps_per_epoch_));
    std::optional<std::string> from;
    NPU_TRY(state_, replica_.start(from));
    emit_start(options, from);
    begin_ = Clock::now();
    bool stopped = false;
    while (!stopped && state_.next_epoch < job_.train.epochs) {
      NPU_TRY(stopped, one_epoch());
    }
    return finish();
  }

 private:
  /// True if train.stop_after_steps ended it.
  [[nodiscard]] Result<bool> one_epoch() {
    const int epoch = state_.next_epoch;
    EpochOptions o;
    o.epoch = epoch;
    o.steps_per_epoch = steps_per_epoch_;
    // Skipped steps count like others.
    o.lr = [this, epoch](int64_t step) { return schedule_.at(epoch, step); };
    o.checkpoint_every_steps = job_.checkpoint.every_steps;
    o.stop_at_step = job_.train.stop_after_steps.value_or(INT64_MAX);
    if (state_.global_step >= o.stop_at_step) return true;
    NPU_TRY(const EpochResult trained,
            train_epoch(replica_, feed_, o, state_, events_,
                        [this](const TrainState& s) { return save(s); }));
    images_ += trained.images;
    train_seconds_ += trained.seconds;
    if (state_.step_in_epoch < steps_per_epoch_) {
      NPU_TRY_VOID(save(state_));
      return true;
    }
    NPU_TRY(const ValResult val, validate(replica_, feed_, epoch, events_));
    NPU_TRY(const auto average, validate_average(epoch));
    const EpochSums sums = state_.sums;
    // Strictly better, and NaN never is.
    const bool best = val.acc1 > state_.best_acc1;
    if (best) {
      state_.best_acc1 = val.acc1;
      state_.best_epoch = epoch;
    }
    state_.last_acc1 = val.acc1;
    state_.sums = {};
    state_.step_in_epoch = 0;
    state_.next_epoch = epoch + 1;
    emit_epoch(epoch, sums, trained, {val, average}, best);
    const bool last = state_.next_epoch == job_.train.epochs;
    const int every = job_.checkpoint.every_epochs;
    if (last || trained.stopped || (every > 0 && state_.next_epoch % every == 0))
      NPU_TRY_VOID(save(state_));
    return trained.stopped;
  }

  /// Nothing without train.ema_decay. Which epoch is the best is the weights' own business.
  [[nodiscard]] Result<std::optional<ValResult>> validate_average(int epoch) {
    WeightAverage* const average = replica_.average();
    if (average == nullptr) return std::optional<ValResult>();
    average->swap(replica_.network());
    const auto val = validate(replica_, feed_, epoch, events_);
    average->swap(replica_.network());
    if (!val) return tl::unexpected(val.error());
    return std::optional<ValResult>(*val);
  }

  [[nodiscard]] Result<void> save(const TrainState& state) {
    if (job_.checkpoint.every_epochs == 0 && job_.checkpoint.every_steps == 0) return {};
    NPU_TRY_VOID(replica_.emit_commits(events_, replica_.pending_commits() >= kStages));
    return replica_.commit(state);
  }

  [[nodiscard]] Result<void> finish() {
    NPU_TRY_VOID(replica_.emit_commits(events_, true));
    NPU_TRY_VOID(replica_.share_buffers());
    DoneEvent e;
    e.epochs = state_.next_epoch;
    e.steps = state_.global_step;
    e.skipped_steps = state_.skipped_steps;
    e.best_acc1 = state_.best_acc1;
    e.best_epoch = state_.best_epoch;
    e.acc1 = state_.last_acc1;
    e.img_s = train_seconds_ > 0 ? static_cast<double>(images_) / train_seconds_ : 0;
    e.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    e.checkpoint = replica_.last_checkpoint();
    e.staged_copies = static_cast<int64_t>(replica_.device().staged_copies());
    if (replica_.rank() == 0) e.weights_digest = to_hex(replica_.digest());
    // Nobody leaves before all are done: a rank that left early would look like a failure to the
    // others. So the last sum is a barrier, too.
    int64_t bad = feed_.loader.bad_samples();
    NPU_TRY(Work work, replica_.world().all_reduce(&bad, &bad, 1, DType::kInt64, ReduceOp::kSum,
                                                   replica_.collective_options()));
    NPU_TRY_VOID(work.wait());
    e.bad_images = bad;
    NPU_TRY_VOID(replica_.device().detach());
    if (replica_.rank() == 0) events_.on_event(e);
    return {};
  }

  void emit_start(const RankOptions& options, const std::optional<std::string>& from) {
    if (replica_.rank() != 0) return;
    StartEvent e;
    e.run = job_.name;
    e.arch = job_.model.arch;
    e.parameters = replica_.network().parameter_count();
    e.precision = precision_text(job_.precision);
    e.algorithm = algorithm_name(job_.collectives.algorithm);
    e.daemon = options.socket;
    e.data = feed_.data.description;
    e.world = job_.world();
    e.devices = job_.devices;
    e.global_batch = job_.train.batch_size;
    e.rank_batch = job_.rank_batch();
    e.steps_per_epoch = steps_per_epoch_;
    e.epochs = job_.train.epochs;
    e.lr = job_.optimizer.lr;
    e.schedule = schedule_name(job_.schedule.kind);
    e.seed = job_.seed;
    if (from) {
      e.resumed_from = *from;
      e.resumed_step = state_.global_step + 1;
    } else {
      e.pretrained = job_.model.pretrained;
    }
    e.warnings = replica_.warnings();
    if (job_.data.workers > data::available_cores()) {
      e.warnings.push_back(fmt::format(
          "data.workers {} exceeds the {} cores here; {} loader threads a rank are used",
          job_.data.workers, data::available_cores(), loader_threads(job_)));
    }
    events_.on_event(e);
  }

  struct Validated {
    const ValResult& weights;
    const std::optional<ValResult>& average;
  };

  void emit_epoch(int epoch, const EpochSums& sums, const EpochResult& trained,
                  const Validated& validated, bool best) {
    if (replica_.rank() != 0) return;
    const ValResult& val = validated.weights;
    const auto samples = static_cast<double>(sums.samples);
    EpochEvent e;
    e.epoch = epoch;
    e.train_loss = sums.loss / samples;
    e.train_acc1 = 100 * sums.top1 / samples;
    e.val_loss = val.loss;
    e.val_acc1 = val.acc1;
    e.val_acc5 = val.acc5;
    e.val_samples = val.samples;
    if (validated.average) {
      e.val_ema_loss = validated.average->loss;
      e.val_ema_acc1 = validated.average->acc1;
      e.val_ema_acc5 = validated.average->acc5;
    }
    e.img_s = trained.seconds > 0 ? static_cast<double>(trained.images) / trained.seconds : 0;
    e.seconds = trained.seconds;
    e.best = best;
    events_.on_event(e);
  }

  Replica& replica_;
  const Job& job_;
  const Feed feed_;
  EventSink& events_;
  LearningRate schedule_;
  TrainState state_;
  int64_t steps_per_epoch_ = 0;
  int64_t images_ = 0;
  double train_seconds_ = 0;
  Clock::time_point begin_;
};

}  // namespace

Result<void> run_rank(const Job& job, const RankOptions& options, EventSink& events) {
  NPU_TRY_VOID(refuse_unsupported(job));
  NPU_TRY(const data::Data data, data::open_data(job, options.on_warning));
  NPU_TRY(const auto replica, Replica::create(job, options, data));
  NPU_TRY(const auto loader, data::BatchLoader::create(replica->slots(), {loader_threads(job)}));
  Trainer trainer(*replica, {data, *loader}, events);
  return trainer.run(options);
}

}  // namespace npu::client
