#include "client/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "client/data/sampler.hpp"
#include "client/train/epoch.hpp"
#include "client/train/recipe.hpp"
#include "client/train/replica.hpp"
#include "client/train/report.hpp"
#include "client/train/resume_policy.hpp"
#include "config/load.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/manifest.hpp"

namespace npu::client {
namespace {

using config::Job;

/// More threads than processors only get in each other's way.
int loader_threads(const Job& job) {
  return data::workers_per_rank(std::min(job.data.workers, data::available_cores()), job.world());
}

/// The whole job of one rank, once everything is in place. Every decision is taken from numbers
/// that are equal on all ranks (docs/design/012-training-control.md).
class Trainer {
 public:
  /// `job` is the replica's; what a checkpoint keeps in force is set in it before it is looked at.
  Trainer(Job& job, Replica& replica, const Feed& feed, EventSink& events)
      : replica_(replica), job_(job), feed_(feed), events_(events) {}

  [[nodiscard]] Result<RankEnd> run(const RankOptions& options) {
    NPU_TRY_VOID(model::check_sgd(sgd_params(job_)));
    NPU_TRY(steps_per_epoch_, data::train_steps(feed_.data.train->size(), job_.world(),
                                                job_.rank_batch(), job_.train.accumulate));
    NPU_TRY(state_, replica_.start(from_));
    if (!replica_.adopted().empty()) {
      NPU_TRY_VOID(config::apply_settings(job_, replica_.adopted(), "checkpoint"));
    }
    NPU_TRY(schedule_, LearningRate::of(job_, steps_per_epoch_));
    if (replica_.rank() == 0) emit_start();
    begin_ = Clock::now();
    if (job_.train.evaluate) {
      NPU_TRY_VOID(evaluate());
    } else {
      NPU_TRY_VOID(train(options));
    }
    NPU_TRY_VOID(finish());
    return stopped_ ? RankEnd::kStopped : RankEnd::kFinished;
  }

 private:
  [[nodiscard]] Result<void> train(const RankOptions& options) {
    note_ = finished_note(job_, state_);
    over_ = !note_.empty();
    if (options.on_training && !over_) options.on_training();
    while (!over_ && state_.next_epoch < job_.train.epochs) NPU_TRY_VOID(one_epoch());
    return {};
  }

  [[nodiscard]] Result<void> evaluate() {
    const int epoch = from_ ? state_.next_epoch - (state_.step_in_epoch == 0 ? 1 : 0) : -1;
    NPU_TRY(const ValResult val, validate(replica_, feed_, epoch, events_));
    NPU_TRY(const auto average, validate_average(epoch));
    images_ = val.samples;
    busy_seconds_ = val.seconds;
    state_.last_acc1 = val.acc1;
    note_ = fmt::format("evaluated {} images with the weights of {}", val.samples,
                        from_ ? *from_ : job_.model.pretrained.value_or("nothing"));
    if (replica_.rank() == 0) events_.on_event(eval_event(epoch, val, average));
    return {};
  }

  [[nodiscard]] Result<void> one_epoch() {
    EpochResult trained;
    trained.stopped = state_.global_step >= stop_at();
    // An epoch may have been stopped between its last step and its validation.
    if (state_.step_in_epoch < steps_per_epoch_) {
      if (trained.stopped) return end_early();
      NPU_TRY(trained, train_steps());
    }
    if (trained.interrupted) return end_stopped();
    if (state_.step_in_epoch < steps_per_epoch_) {
      NPU_TRY_VOID(save(false));
      return end_early();
    }
    return close_epoch(trained);
  }

  [[nodiscard]] int64_t stop_at() const { return job_.train.stop_after_steps.value_or(INT64_MAX); }

  [[nodiscard]] bool validation_due(int epoch) const {
    return epoch + 1 == job_.train.epochs || is_due(job_.train.eval_every, epoch + 1);
  }

  [[nodiscard]] Result<EpochResult> train_steps() {
    const int epoch = state_.next_epoch;
    EpochOptions o;
    o.epoch = epoch;
    o.steps_per_epoch = steps_per_epoch_;
    // Skipped steps count like others.
    o.lr = [this, epoch](int64_t step) { return schedule_.at(epoch, step); };
    o.checkpoint_every_steps = job_.checkpoint.every_steps;
    o.memory_every_steps = job_.checkpoint.memory_every_steps;
    o.stop_at_step = stop_at();
    o.validation_follows = validation_due(epoch);
    NPU_TRY(const EpochResult trained, train_epoch(replica_, feed_, o, state_, events_,
                                                   [this](SaveTo to) { return save(false, to); }));
    images_ += trained.images;
    busy_seconds_ += trained.seconds;
    return trained;
  }

  /// Validation if one is due, what is best, the checkpoint.
  [[nodiscard]] Result<void> close_epoch(const EpochResult& trained) {
    const int epoch = state_.next_epoch;
    const bool last = epoch + 1 == job_.train.epochs;
    Validated validated;
    if (validation_due(epoch)) {
      NPU_TRY(validated.weights, validate(replica_, feed_, epoch, events_));
      NPU_TRY(validated.average, validate_average(epoch));
    }
    report_validation(validated.weights);
    const bool best = note_accuracy(validated.weights, epoch);
    const EpochSums sums = std::exchange(state_.sums, {});
    state_.step_in_epoch = 0;
    state_.next_epoch = epoch + 1;
    if (replica_.rank() == 0) {
      events_.on_event(epoch_event(epoch, sums, trained, validated, best));
    }
    const std::string reached = last ? "" : finished_note(job_, state_);
    const bool interrupted = validated.weights && validated.weights->interrupted && !last;
    const bool due = is_due(job_.checkpoint.every_epochs, state_.next_epoch) ||
                     is_due(job_.checkpoint.every_steps, state_.global_step);
    const bool ends = last || trained.stopped || interrupted || !reached.empty();
    if (saves_checkpoints(job_) && (ends || due || best)) {
      NPU_TRY_VOID(save(best));
    } else if (!ends && is_due(job_.checkpoint.memory_every_steps, state_.global_step)) {
      NPU_TRY_VOID(save(false, SaveTo::kMemory));
    }
    if (!reached.empty()) {
      note_ = fmt::format("train.target_acc1 {:g} % is reached: {:.3f} % in epoch {}",
                          job_.train.target_acc1, state_.best_acc1, state_.best_epoch);
      over_ = true;
    } else if (trained.stopped && !last) {
      return end_early();
    } else if (interrupted) {
      say_stopped();
    }
    return {};
  }

  void report_validation(const std::optional<ValResult>& val) {
    if (!val || replica_.rank() != 0) return;
    replica_.device().report_validation(val->loss, val->acc1 / 100, val->acc5 / 100);
  }

  /// True if it is the best so far: strictly better, and NaN never is.
  bool note_accuracy(const std::optional<ValResult>& val, int epoch) {
    if (!val) return false;
    state_.last_acc1 = val->acc1;
    if (!(val->acc1 > state_.best_acc1)) return false;
    state_.best_acc1 = val->acc1;
    state_.best_epoch = epoch;
    return true;
  }

  /// Nothing without train.ema_decay. Which epoch is the best is the weights' own business.
  [[nodiscard]] Result<std::optional<ValResult>> validate_average(int epoch) {
    WeightAverage* const average = replica_.average();
    if (average == nullptr) return std::optional<ValResult>();
    replica_.settle();
    average->swap(replica_.network());
    const auto val = validate(replica_, feed_, epoch, events_);
    average->swap(replica_.network());
    if (!val) return tl::unexpected(val.error());
    return std::optional<ValResult>(*val);
  }

  [[nodiscard]] Result<void> end_early() {
    note_ = fmt::format("stopped after step {} as train.stop_after_steps says", state_.global_step);
    over_ = true;
    return {};
  }

  /// Asked to stop: everything up to the present step is kept.
  [[nodiscard]] Result<void> end_stopped() {
    NPU_TRY_VOID(save(false));
    say_stopped();
    return {};
  }

  void say_stopped() {
    note_ = fmt::format("stopped by a signal after step {}; {}", state_.global_step,
                        saves_checkpoints(job_)
                            ? "launch the job again to go on from there"
                            : "the job writes no checkpoints, so its steps are lost");
    over_ = stopped_ = true;
  }

  [[nodiscard]] Result<void> save(bool best, SaveTo to = SaveTo::kDisk) {
    if (to == SaveTo::kDisk && !saves_checkpoints(job_)) return {};
    return replica_.commit(state_, best, replica_.rank() == 0 ? &events_ : nullptr, to);
  }

  [[nodiscard]] Result<void> finish() {
    NPU_TRY_VOID(replica_.emit_commits(events_, true));
    const Result<void> saved = replica_.saved();  // alike on all ranks, which still leave together
    NPU_TRY_VOID(replica_.share_buffers());
    DoneEvent e;
    e.epochs = state_.next_epoch;
    e.steps = state_.global_step;
    e.skipped_steps = state_.skipped_steps;
    e.best_acc1 = state_.best_acc1;
    e.best_epoch = state_.best_epoch;
    e.acc1 = state_.last_acc1;
    e.img_s = busy_seconds_ > 0 ? static_cast<double>(images_) / busy_seconds_ : 0;
    e.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    e.checkpoint = replica_.last_checkpoint();
    const bool newest =
        job_.checkpoint.resume == config::ResumeKind::kAuto && saves_checkpoints(job_);
    const std::string from = from_.value_or("");
    if (e.checkpoint.empty() && newest && !from.starts_with(kMemoryPath)) e.checkpoint = from;
    NPU_TRY(e.best_checkpoint, replica_.best_checkpoint());
    e.stopped = stopped_;
    e.note = note_;
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
    if (saved && replica_.rank() == 0) events_.on_event(e);
    return saved;
  }

  void emit_start() {
    StartEvent e = start_event(replica_, feed_.data.description, steps_per_epoch_, from_, state_);
    if (job_.data.workers > data::available_cores()) {
      e.warnings.push_back(
          fmt::format("data.workers {} is more than the processors of this rank; {} loader threads "
                      "a rank are used",
                      job_.data.workers, loader_threads(job_)));
    }
    replica_.device().describe_training(e.arch, e.precision);
    events_.on_event(e);
  }

  Replica& replica_;
  Job& job_;
  const Feed feed_;
  EventSink& events_;
  LearningRate schedule_;
  TrainState state_;
  std::optional<std::string> from_;  // the checkpoint that it goes on from
  int64_t steps_per_epoch_ = 0;
  int64_t images_ = 0;
  double busy_seconds_ = 0;
  bool over_ = false, stopped_ = false;
  std::string note_;
  Clock::time_point begin_;
};

}  // namespace

Result<RankEnd> run_rank(const Job& job, const RankOptions& options, EventSink& events) {
  NPU_TRY(const data::Data data, data::open_data(job, options.on_warning, options.pictures_fd));
  Job effective = job;
  NPU_TRY(const auto replica, Replica::create(effective, options, data));
  NPU_TRY(const auto loader, data::BatchLoader::create(replica->slots(), {loader_threads(job)}));
  Trainer trainer(effective, *replica, {data, *loader}, events);
  return trainer.run(options);
}

}  // namespace npu::client
