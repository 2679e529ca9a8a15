// Runs and checkpoints.
#include "daemon/metrics/collect.hpp"

namespace npu::daemon {
namespace {

MetricLabels labels_of(const RunView& run) { return {{"run", run.name}, {"uid", std::to_string(run.uid)}}; }

MetricLabels with(const RunView& run, std::string_view name, std::string value) {
  MetricLabels labels = labels_of(run);
  labels.emplace_back(name, std::move(value));
  return labels;
}

MetricLabels hits(const RunView& run, const char* split, const char* topk) {
  MetricLabels labels = with(run, "split", split);
  labels.emplace_back("topk", topk);
  return labels;
}

void collect_totals(const MetricsView& view, Exposition& out) {
  auto runs = out.gauge("npud_runs", "Runs of all users by what they are at");
  for (size_t p = 0; p < kRunPhases; ++p) {
    runs.add({{"state", run_phase_name(static_cast<RunPhase>(p))}}, static_cast<double>(view.runs_by_phase[p]));
  }
  auto over = out.counter("npud_runs_total", "Runs that are over; each attempt of a restarted one counts");
  over.add({{"result", "completed"}}, static_cast<double>(view.control->runs_completed));
  over.add({{"result", "failed"}}, static_cast<double>(view.control->runs_failed));
}

/// What the last step showed.
void collect_training(const MetricsView& view, Exposition& out) {
  auto epoch = out.gauge("npud_run_epoch", "Epoch under way, from 0");
  auto step = out.gauge("npud_run_step", "Training steps done, those before a resume included");
  auto loss = out.gauge("npud_run_loss", "Mean loss of the last step, or of the last validation");
  auto accuracy = out.gauge("npud_run_accuracy_ratio", "Hits of the last step, or of the last validation");
  auto rate = out.gauge("npud_run_learning_rate", "Learning rate of the last step");
  auto scale = out.gauge("npud_run_loss_scale", "Loss scale of the last step");
  auto skipped = out.counter("npud_run_skipped_steps_total", "Steps that a gradient that was not finite cost");
  auto samples = out.counter("npud_run_samples_total", "Samples trained, over all ranks");
  auto phase = out.counter("npud_run_phase_seconds_total", "Where rank 0's time goes; data: it waited for a batch");
  for (const RunView& run : view.runs) {
    const shm::TrainingView& t = run.training;
    step.add(labels_of(run), static_cast<double>(run.step));
    if (t.steps != 0) {
      epoch.add(labels_of(run), static_cast<double>(t.epoch));
      loss.add(with(run, "split", "train"), t.loss);
      accuracy.add(hits(run, "train", "1"), t.top1);
      accuracy.add(hits(run, "train", "5"), t.top5);
      rate.add(labels_of(run), t.learning_rate);
      scale.add(labels_of(run), t.loss_scale);
      skipped.add(labels_of(run), static_cast<double>(t.skipped));
      samples.add(labels_of(run), static_cast<double>(t.samples));
      phase.add(with(run, "phase", "data"), t.data_wait_s);
    }
    if (t.validations == 0) continue;
    loss.add(with(run, "split", "val"), t.val_loss);
    accuracy.add(hits(run, "val", "1"), t.val_top1);
    accuracy.add(hits(run, "val", "5"), t.val_top5);
  }
}

}  // namespace

const char* run_phase_name(RunPhase phase) noexcept {
  switch (phase) {
    case RunPhase::kPending:
      return "pending";
    case RunPhase::kRunning:
      return "running";
    case RunPhase::kCompleting:
      return "completing";
    case RunPhase::kFailed:
      return "failed";
  }
  return "unknown";
}

void collect_runs(const MetricsView& view, Exposition& out) {
  collect_totals(view, out);
  auto info = out.gauge("npud_run_info", "1; what the run is. Empty: rank 0 has not said it, or does not train");
  auto restarts = out.counter("npud_run_restarts_total", "Attempts that became complete after one that failed");
  for (const RunView& run : view.runs) {
    auto labels = labels_of(run);
    labels.emplace_back("generation", std::to_string(run.generation));
    labels.emplace_back("world_size", std::to_string(run.world));
    labels.emplace_back("arch", run.training.arch);
    labels.emplace_back("precision", run.training.precision);
    info.add(labels, 1);
    restarts.add(labels_of(run), static_cast<double>(run.history.restarts));
  }
  collect_training(view, out);
}

void collect_checkpoints(const MetricsView& view, Exposition& out) {
  auto total = out.counter("npud_checkpoint_total", "Checkpoints by outcome");
  auto last =
      out.gauge("npud_checkpoint_last_success_timestamp_seconds", "When a checkpoint last became durable, Unix time");
  auto size = out.gauge("npud_checkpoint_last_size_bytes", "Bytes of the newest checkpoint");
  auto interval = out.gauge("npud_checkpoint_interval_seconds", "Between the last two checkpoints");
  for (const RunView& run : view.runs) {
    const RunHistory& h = run.history;
    total.add(with(run, "result", "ok"), static_cast<double>(h.checkpoints));
    total.add(with(run, "result", "failed"), static_cast<double>(h.failed_checkpoints));
    if (h.last_success_unix > 0) {
      last.add(labels_of(run), h.last_success_unix);
      size.add(labels_of(run), static_cast<double>(h.last_bytes));
    }
    if (h.interval_s > 0) interval.add(labels_of(run), h.interval_s);
  }
  out.histogram("npud_checkpoint_duration_seconds", "From the handing over by all ranks to durable, of all users")
      .add({}, view.control->checkpoint_duration);
  out.counter("npud_checkpoint_verify_failures_total", "Checkpoints that were read and did not hold, of all users")
      .add({}, static_cast<double>(view.control->verify_failures));
}

}  // namespace npu::daemon
