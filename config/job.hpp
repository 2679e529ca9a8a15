// The job: what `npu launch` was asked to do, after every check. Field names and meaning are the
// YAML's; sizes are bytes, times milliseconds, batch sizes global (over all ranks).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace npu::config {

enum class Profile : uint8_t { kPytorch, kTf };
enum class DataFormat : uint8_t { kImageFolder, kIdx, kCifar10, kCifar100, kSynthetic };
enum class Augment : uint8_t { kNone, kCifar, kImagenet };
enum class BadImage : uint8_t { kError, kSkip, kReplace };
enum class Exif : uint8_t { kIgnore, kApply };
enum class ScheduleKind : uint8_t { kStep, kMultistep, kCosine, kConstant, kLinear, kExponential };
enum class WarmupForm : uint8_t { kLinear, kNext, kConstant };
enum class NanLoss : uint8_t { kAbort, kContinue };
enum class Placement : uint8_t { kOff, kWarn, kStrict };
enum class Algorithm : uint8_t { kAuto, kRing, kDirect };
enum class ResumeKind : uint8_t { kAuto, kNever, kBest, kPath };
enum class BnBuffers : uint8_t { kRank0, kLocal, kMean };

struct ModelConfig {
  std::string arch = "resnet18";
  int num_classes = 1000;
  bool zero_init_residual = false;
  std::optional<std::string> pretrained;
  bool ignore_head = false;  // pretrained: the classifier stays as initialised
  BnBuffers bn_buffers = BnBuffers::kRank0;
  bool sync_bn = false;
};

struct DataConfig {
  DataFormat format = DataFormat::kSynthetic;
  std::string path;
  int workers = 2;
  Augment augment = Augment::kNone;
  BadImage bad_image = BadImage::kError;
  Exif exif = Exif::kIgnore;
  int image_size = 0;        // height and width of the network's input; 0 = the format's own
  int val_resize = 0;        // shorter side before the centre crop; 0 = by augment and image_size
  std::vector<double> mean;  // a channel each, of pixels scaled to 0..1; empty = the data set's own
  std::vector<double> std;
  int label_offset = 0;      // added to the class index; 1 leaves output 0 to "background"
  uint64_t cache_bytes = 0;  // decoded images, in a memory that ranks share
  bool pin_memory = false;   // no effect: batches are prepared in the device's memory anyway
  // Synthetic data only: what one epoch holds.
  int train_samples = 2048;
  int val_samples = 512;
  int channels = 3;
};

struct TrainConfig {
  int epochs = 90;
  int batch_size = 256;
  int print_freq = 10;
  std::optional<int64_t> start_epoch;
  std::optional<int64_t> stop_after_steps;
  int eval_every = 1;      // epochs between validations; the last epoch is always validated
  double target_acc1 = 0;  // percent; 0 = off
  bool evaluate = false;   // validate once, train nothing
  NanLoss nan_loss = NanLoss::kAbort;
  int accumulate = 1;  // micro-batches a step; batch_size counts all of them
  double label_smoothing = 0;
  double ema_decay = 0;              // 0 = off
  int64_t check_replicas_every = 0;  // steps; 0 = only at checkpoints
};

struct OptimizerConfig {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool nesterov = false;
  bool decay_bn = true;
  double clip_grad_norm = 0;  // 0 = off
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kStep;
  int warmup_epochs = 0;
  WarmupForm warmup_form = WarmupForm::kLinear;
  double warmup_start = 0.01;   // linear, constant: first rate of the warm-up over optimizer.lr
  double end_lr = 0;            // cosine, linear
  bool per_step = false;        // false: the rate changes at epoch borders only, as main.py's does
  int step_size = 30;           // step
  double gamma = 0.1;           // step, multistep: a drop; exponential: an epoch
  std::vector<int> milestones;  // multistep
};

struct PrecisionConfig {
  bool amp = false;
  std::string dtype = "fp16";
  double loss_scale = 1024;   // 0 stands for dynamic
  double init_scale = 65536;  // dynamic: first scale, and good steps before it doubles
  int growth_interval = 2000;
  int max_skips = 50;  // non-finite steps in a row that end the job
};

struct CollectivesConfig {
  Algorithm algorithm = Algorithm::kAuto;
  std::string allreduce_dtype = "fp32";
  uint64_t bucket_bytes = 4u << 20;
  std::chrono::milliseconds timeout{60'000};    // 0 = never
  std::chrono::milliseconds reconnect{10'000};  // 0 = a daemon's death ends the run
};

struct CheckpointConfig {
  int every_epochs = 1;            // 0 = off
  int64_t every_steps = 0;         // 0 = off
  int64_t memory_every_steps = 0;  // in the daemon's memory; 0 = off
  int keep = 3;
  ResumeKind resume = ResumeKind::kAuto;
  std::string resume_path;                   // for kPath
  std::vector<std::string> resume_override;  // what the job file may change on resume
};

/// When the launcher starts a job again after a failure; nothing for the ranks.
struct RestartConfig {
  int max_restarts = 0;                      // in a row without a new checkpoint; 0 = never
  std::chrono::milliseconds backoff{1'000};  // before the first of them; doubles up to 30 s
};

/// Where a run's curves go; written by the launcher alone.
struct OutputConfig {
  std::optional<std::string> dir;  // empty = the user's state directory
  bool tensorboard = false;
};

struct Job {
  std::string name;
  std::vector<int> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  uint64_t seed = 0;
  Profile profile = Profile::kPytorch;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  PrecisionConfig precision;
  CollectivesConfig collectives;
  CheckpointConfig checkpoint;
  OutputConfig output;
  RestartConfig restart;
  Placement placement = Placement::kWarn;

  [[nodiscard]] int world() const noexcept { return static_cast<int>(devices.size()); }
  /// Images of one rank in one forward pass.
  [[nodiscard]] int rank_batch() const noexcept {
    return train.batch_size / (world() * train.accumulate);
  }
};

}  // namespace npu::config
