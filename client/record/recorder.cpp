#include "client/record/recorder.hpp"

#include <nlohmann/json.hpp>

#include "client/record/replace_file.hpp"
#include "client/record/rows.hpp"
#include "client/record/run_folder.hpp"

namespace npu::client {
namespace {

constexpr double kFlushEvery = 1;  // seconds

/// Opens a CSV file, with its header when it is new and a restart marker when it is not.
Result<AppendFile> open_csv(const std::string& path, std::string_view header,
                            const std::string& marker) {
  NPU_TRY(AppendFile file, AppendFile::open(path));
  NPU_TRY_VOID(file.append(file.had_content() ? marker + '\n' : std::string(header) + '\n'));
  return file;
}

}  // namespace

struct Recorder::Files {
  AppendFile steps, epochs, metrics, events;
  std::optional<TensorboardFile> tensorboard;
};

Recorder::Recorder(RecorderOptions options)
    : options_(std::move(options)), broken_(options_.folder.empty()) {}

Recorder::~Recorder() {
  if (!files_) return;
  if (const auto flushed = flush(); !flushed) fail_once(flushed.error());
}

void Recorder::on_event(const Event& event) {
  if (broken_) return;
  if (const auto recorded = record(event); !recorded) fail_once(recorded.error());
}

void Recorder::fail_once(const Error& error) {
  broken_ = true;
  files_.reset();
  options_.warn(fmt::format(
      "warning: the run's curves are not recorded any further: {}; the job goes on, output.dir "
      "names another folder",
      error.message));
}

Result<void> Recorder::record(const Event& event) {
  if (const auto* e = std::get_if<RestartEvent>(&event)) restarts_ = e->attempt;
  if (const auto* e = std::get_if<StartEvent>(&event)) NPU_TRY_VOID(start(*e));
  if (!files_ || std::holds_alternative<ValStepEvent>(event)) return {};
  if (const auto* e = std::get_if<StepEvent>(&event)) return step(*e);
  NPU_TRY_VOID(files_->events.append(to_json(event) + '\n'));
  if (const auto* e = std::get_if<EpochEvent>(&event)) return epoch(*e);
  if (std::holds_alternative<RestartEvent>(event)) return summary("running", event);
  const bool done = std::holds_alternative<DoneEvent>(event);
  if (!done && !std::holds_alternative<ErrorEvent>(event)) return {};
  NPU_TRY_VOID(flush());
  return summary(done ? "done" : "failed", event);
}

Result<void> Recorder::start(const StartEvent& e) {
  if (files_) NPU_TRY_VOID(flush());  // restarted: the marker comes behind what was told before
  start_ = e;
  const double now = options_.now();
  const int64_t next_step = e.resumed_step.value_or(1);
  last_step_ = next_step - 1;
  const std::string& folder = options_.folder;
  NPU_TRY_VOID(make_folder(folder));
  const std::string marker = restart_row(next_step, now);
  NPU_TRY(AppendFile steps, open_csv(folder + "/steps.csv", kStepHeader, marker));
  NPU_TRY(AppendFile epochs, open_csv(folder + "/epochs.csv", kEpochHeader, marker));
  NPU_TRY(AppendFile metrics, AppendFile::open(folder + "/metrics.jsonl"));
  NPU_TRY(AppendFile events, AppendFile::open(folder + "/events.jsonl"));
  const bool restart = steps.had_content();
  if (metrics.had_content()) {
    const Metric line{"restart", static_cast<double>(next_step), "step", last_step_, 0};
    NPU_TRY_VOID(metrics.append(metric_line(line, now) + '\n'));
  }
  std::optional<TensorboardFile> tensorboard;
  if (options_.tensorboard) {
    NPU_TRY(tensorboard, TensorboardFile::create(folder, now, next_step, restart));
  }
  files_ = std::make_unique<Files>(Files{std::move(steps), std::move(epochs), std::move(metrics),
                                         std::move(events), std::move(tensorboard)});
  NPU_TRY_VOID(flush());
  return summary("running", e);
}

Result<void> Recorder::step(const StepEvent& e) {
  const double now = options_.now();
  last_step_ = e.step;
  NPU_TRY_VOID(files_->steps.append(step_row(e, now) + '\n'));
  // At once: a checkpoint may follow that outlives us, and no step before it may be missing.
  NPU_TRY_VOID(files_->steps.flush());
  if (e.display) {
    for (const Metric& metric : metrics_of(e)) {
      NPU_TRY_VOID(files_->metrics.append(metric_line(metric, now) + '\n'));
    }
    if (auto& board = files_->tensorboard) {
      NPU_TRY_VOID(board->scalar("Loss/train", e.loss, e.step, now));
      NPU_TRY_VOID(board->scalar("Accuracy/train", e.acc1, e.step, now));
      NPU_TRY_VOID(board->scalar("lr", e.lr, e.step, now));
      NPU_TRY_VOID(board->scalar("scale", e.scale, e.step, now));
      NPU_TRY_VOID(board->scalar("throughput", e.img_s, e.step, now));
    }
  }
  return now - flushed_at_ < kFlushEvery ? Result<void>() : flush();
}

Result<void> Recorder::epoch(const EpochEvent& e) {
  const double now = options_.now();
  epoch_ = e;
  NPU_TRY_VOID(files_->epochs.append(epoch_row(e, last_step_, now) + '\n'));
  for (const Metric& metric : metrics_of(e, last_step_)) {
    NPU_TRY_VOID(files_->metrics.append(metric_line(metric, now) + '\n'));
  }
  if (auto& board = files_->tensorboard; board && e.val_samples > 0) {
    NPU_TRY_VOID(board->scalar("Loss/val", e.val_loss, last_step_, now));
    NPU_TRY_VOID(board->scalar("Accuracy/val", e.val_acc1, last_step_, now));
    NPU_TRY_VOID(board->scalar("Accuracy/val_top5", e.val_acc5, last_step_, now));
  }
  NPU_TRY_VOID(flush());
  return summary("running", e);
}

Result<void> Recorder::summary(const char* state, const Event& last) {
  using Json = nlohmann::ordered_json;
  // The records' own JSON is what to_json makes: it parses.
  const auto record_of = [](const Event& event) {
    Json record = Json::parse(to_json(event), nullptr, false);
    record.erase("schema");
    return record;
  };
  Json out = {{"schema", 1}, {"run", start_.run}, {"state", state}, {"steps", last_step_}};
  out["restarts"] = restarts_;
  out["timestamp"] = options_.now();
  out["start"] = record_of(start_);
  if (epoch_) out["epoch"] = record_of(*epoch_);
  if (std::holds_alternative<DoneEvent>(last) || std::holds_alternative<ErrorEvent>(last)) {
    out["end"] = record_of(last);
  }
  return replace_file(options_.folder + "/summary.json",
                      out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

Result<void> Recorder::flush() {
  flushed_at_ = options_.now();
  NPU_TRY_VOID(files_->steps.flush());
  NPU_TRY_VOID(files_->epochs.flush());
  NPU_TRY_VOID(files_->metrics.flush());
  NPU_TRY_VOID(files_->events.flush());
  return files_->tensorboard ? files_->tensorboard->flush() : Result<void>();
}

}  // namespace npu::client
