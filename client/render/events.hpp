// What a job tells the people and programs that watch it: one struct an event, one JSON object a
// line. Ranks write events to a pipe, the launcher reads them back and renders them; both ends are
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

struct StartEvent {
  std::string run;
  std::string arch;
  uint64_t parameters = 0;
  std::string precision;  // "fp32", "fp16, loss scale 1024"
  std::string algorithm;  // "auto", "ring", "direct"
  std::string daemon;     // socket path
  std::string data;       // detected set, e.g. "Fashion-MNIST, 60000 train + 10000 val"
  int world = 1;
  std::vector<int> devices;
  int global_batch = 0;
  int rank_batch = 0;
  int64_t steps_per_epoch = 0;
  int epochs = 0;
  int eval_every = 1;  // epochs between validations
  double lr = 0;
  std::string schedule;
  uint64_t seed = 0;
  std::optional<int64_t> resumed_step;  // first step that will run, when resumed
  std::optional<std::string> resumed_from;
  std::optional<std::string> pretrained;  // the file that gave the first weights
  std::vector<std::string> notes;         // what the job changes against its checkpoint
  std::vector<std::string> warnings;      // what differs from the checkpoint it resumes
};

/// One training step as the whole job saw it: means over all ranks; (avg) values run over the
/// epoch.
struct StepEvent {
  int epoch = 0;
  int64_t step = 0;           // global, counts from 1
  int64_t step_in_epoch = 0;  // counts from 1
  int64_t steps_per_epoch = 0;
  bool display = true;  // false: only moves the progress bar
  double loss = 0, loss_avg = 0;
  double acc1 = 0, acc1_avg = 0;  // percent
  double acc5 = 0, acc5_avg = 0;
  double lr = 0;
  double scale = 1;  // of the loss, in this step
  double img_s = 0;
  double batch_s = 0, batch_avg_s = 0;
  double data_s = 0, data_avg_s = 0;
};

/// Progress of a validation pass ("Test:" lines).
struct ValStepEvent {
  int epoch = 0;
  int64_t step_in_epoch = 0, steps_per_epoch = 0;
  bool display = true;
  double loss = 0, loss_avg = 0, acc1 = 0, acc1_avg = 0, acc5 = 0, acc5_avg = 0;
  double batch_s = 0, batch_avg_s = 0;
};

struct OverflowEvent {
  int64_t step = 0;
  double scale = 1;  // after the step
};

struct EpochEvent {
  int epoch = 0;
  double train_loss = 0, train_acc1 = 0;
  double val_loss = 0, val_acc1 = 0, val_acc5 = 0;  // NaN in an epoch that was not validated
  int64_t val_samples = 0;                          // 0: not validated
  std::optional<double> val_ema_loss, val_ema_acc1, val_ema_acc5;  // of the averaged weights
  double img_s = 0;
  double seconds = 0;
  bool best = false;
};

/// The one validation of a job that only evaluates.
struct EvalEvent {
  int epoch = 0;  // that the weights come from, -1 if from no checkpoint
  double loss = 0, acc1 = 0, acc5 = 0;
  int64_t samples = 0;
  std::optional<double> ema_loss, ema_acc1, ema_acc5;  // of the averaged weights
};

struct CheckpointEvent {
  int64_t step = 0;
  bool best = false;  // of the best epoch so far
  std::string path;
  uint64_t bytes = 0;
  double stall_ms = 0, durable_ms = 0;
};

/// A checkpoint in the daemon's memory.
struct MemoryCheckpointEvent {
  int64_t step = 0;
  uint64_t bytes = 0;
  double stall_ms = 0;   // how long the rank was held up by it
  double copied_ms = 0;  // the daemon's part
};

/// Something went wrong that does not end the job.
struct WarningEvent {
  int64_t step = 0;
  std::string message;  // one full sentence
};

struct RestartEvent {
  int attempt = 0;
  std::string reason;
  int64_t step = 0;
};

struct ErrorEvent {
  std::string code;     // code_name()
  std::string fault{};  // HCCL's code for it, "EI0002"; empty: none
  int exit_code = 70;
  int rank = -1;
  int64_t pid = 0;
  std::string op;
  int64_t seq = -1;
  std::string message;
};

struct DoneEvent {
  int epochs = 0;
  int64_t steps = 0;
  int64_t skipped_steps = 0;
  double best_acc1 = 0, acc1 = 0;
  int best_epoch = -1;
  double img_s = 0;
  double seconds = 0;
  int64_t bad_images = 0;       // how often one that cannot be read came up, over all ranks
  bool stopped = false;         // by a signal, with epochs left
  std::string note;             // why it ended, if not after its last epoch; what to do then
  std::string best_checkpoint;  // path, empty if none
  int64_t staged_copies = 0;    // buffers outside the arena that collectives had to copy
  std::string checkpoint;       // path of the last durable one, empty if none
  std::string weights_digest;
  std::optional<bool> verified;  // the checkpoint, read back; the launcher's word, not a rank's
};

using Event = std::variant<StartEvent, StepEvent, ValStepEvent, OverflowEvent, EpochEvent,
                           CheckpointEvent, RestartEvent, ErrorEvent, DoneEvent, EvalEvent,
                           WarningEvent, MemoryCheckpointEvent>;

/// One line of JSON without the newline: {"schema":1,"type":"step",...}. NaN and infinities become
/// null.
[[nodiscard]] std::string to_json(const Event& event);

/// The reverse. Errors: data_loss naming the offending text (cut to 200 characters).
[[nodiscard]] Result<Event> event_from_json(std::string_view line);

/// Where events go: a renderer, a pipe to the launcher, or nowhere. One thread at a time.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

}  // namespace npu::client
