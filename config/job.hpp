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
enum class DataFormat : uint8_t { kImageFolder, kIdx, kCifar10, kSynthetic };
enum class Augment : uint8_t { kNone, kCifar, kImagenet };
enum class ScheduleKind : uint8_t { kStep, kMultistep, kCosine, kConstant };
enum class Algorithm : uint8_t { kAuto, kRing, kDirect };
enum class ResumeKind : uint8_t { kAuto, kNever, kPath };
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
  // Synthetic data only: what one epoch holds.
  int train_samples = 2048;
  int val_samples = 512;
  int image_size = 32;
  int channels = 3;
};

struct TrainConfig {
  int epochs = 90;
  int batch_size = 256;
  int print_freq = 10;
  std::optional<int64_t> stop_after_steps;
  int accumulate = 1;  // micro-batches a step; batch_size counts all of them
  double label_smoothing = 0;
  double ema_decay = 0;  // 0 = off
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
  bool per_step = false;        // false: the rate changes at epoch borders only, as main.py's does
  int step_size = 30;           // step
  double gamma = 0.1;           // step, multistep
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
  std::chrono::milliseconds timeout{60'000};  // 0 = never
};

struct CheckpointConfig {
  int every_epochs = 1;     // 0 = off
  int64_t every_steps = 0;  // 0 = off
  int keep = 3;
  ResumeKind resume = ResumeKind::kAuto;
  std::string resume_path;  // for kPath
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

  [[nodiscard]] int world() const noexcept { return static_cast<int>(devices.size()); }
  /// Images of one rank in one forward pass.
  [[nodiscard]] int rank_batch() const noexcept {
    return train.batch_size / (world() * train.accumulate);
  }
};

}  // namespace npu::config
