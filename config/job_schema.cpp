// The table of job keys: the one place where a key, its type, its limits and its explanation are
// written.
#include "config/schema.hpp"

namespace npu::config {
namespace {

using Names = std::string_view;

// Order of the enums in job.hpp.
constexpr std::array<Names, 2> kProfiles = {"pytorch", "tf"};
constexpr std::array<Names, 5> kFormats = {"imagefolder", "idx", "cifar10", "cifar100",
                                           "synthetic"};
constexpr std::array<Names, 3> kAugments = {"none", "cifar", "imagenet"};
constexpr std::array<Names, 3> kBadImages = {"error", "skip", "replace"};
constexpr std::array<Names, 2> kExifs = {"ignore", "apply"};
constexpr std::array<Names, 6> kSchedules = {"step",     "multistep", "cosine",
                                             "constant", "linear",    "exponential"};
constexpr std::array<Names, 3> kWarmupForms = {"linear", "next", "constant"};
constexpr std::array<Names, 2> kNanLosses = {"abort", "continue"};
constexpr std::array<Names, 3> kPlacements = {"off", "warn", "strict"};
constexpr std::array<Names, 3> kBnBuffers = {"rank0", "local", "mean"};
constexpr std::array<Names, 3> kAlgorithms = {"auto", "ring", "direct"};
// Closed sets of text.
constexpr std::array<Names, 15> kArchs = {"resnet8",     "resnet14",    "resnet20",   "resnet32",
                                          "resnet44",    "resnet56",    "resnet110",  "resnet18",
                                          "resnet34",    "resnet50",    "resnet101",  "resnet152",
                                          "resnet18-32", "resnet34-32", "resnet50-32"};
constexpr std::array<Names, 2> kHalfTypes = {"fp16", "bf16"};
constexpr std::array<Names, 2> kWireTypes = {"fp32", "fp16"};
constexpr std::array<Names, 3> kOverridable = {"lr", "schedule", "epochs"};

constexpr double kKiB = 1024;

template <typename E>
EnumSlot slot_of(E& value) {
  static_assert(std::is_same_v<std::underlying_type_t<E>, uint8_t>);
  return EnumSlot{reinterpret_cast<uint8_t*>(&value)};  // byte access may alias
}

// One row a key, where the formatter would make it one line a member.
// clang-format off

void add_data(std::vector<Field>& t, DataConfig& d) {
  t.push_back({"data.format", slot_of(d.format), {}, kFormats, "kind of data set"});
  t.push_back({"data.path", &d.path, {}, {}, "folder of the data set; unused by synthetic"});
  t.push_back({"data.workers", &d.workers, {0, 256}, {},
               "loader threads of the whole job, at most the cores, shared out over the ranks; 0: none", false});
  t.push_back({"data.augment", slot_of(d.augment), {}, kAugments,
               "cifar: pad 4, random crop, flip; imagenet: random resized crop, flip"});
  t.push_back({"data.bad_image", slot_of(d.bad_image), {}, kBadImages,
               "image that cannot be read: error ends the job; skip: the next one stands in, in validation nothing; "
               "replace: the mean colour"});
  t.push_back({"data.exif", slot_of(d.exif), {}, kExifs,
               "orientation noted by the camera; ignore, as torchvision does"});
  t.push_back({"data.image_size", &d.image_size, {0, 1024}, {},
               "height and width the network sees; 0: 224 for imagefolder, 32 for synthetic, else the files'"});
  t.push_back({"data.val_resize", &d.val_resize, {0, 4096}, {},
               "shorter side before the centre crop; 0: image_size * 256 / 224 with augment imagenet, else image_size"});
  t.push_back({"data.mean", &d.mean, {-255, 255}, {},
               "a channel each, of pixels scaled to 0..1; empty: the data set's own"});
  t.push_back({"data.std", &d.std, {0, 255, true}, {}, "as data.mean: what is divided by"});
  t.push_back({"data.label_offset", &d.label_offset, {0, 1}, {},
               "added to the class index; 1 leaves output 0 to background, as TensorFlow's 1001 classes do"});
  t.push_back({"data.cache_bytes", BytesSlot{&d.cache_bytes}, {0, 1e15}, {},
               "imagefolder: memory for decoded images, shared by the ranks of a launch; 0 = off", false});
  t.push_back({"data.pin_memory", &d.pin_memory, {}, {},
               "no effect: batches are prepared in the device's memory", false});
  t.push_back({"data.train_samples", &d.train_samples, {1, 1e8}, {},
               "synthetic: training images an epoch"});
  t.push_back({"data.val_samples", &d.val_samples, {1, 1e8}, {}, "synthetic: validation images"});
  t.push_back({"data.channels", &d.channels, {1, 4}, {}, "synthetic: channels an image"});
}

void add_training(std::vector<Field>& t, Job& job) {
  TrainConfig& train = job.train;
  t.push_back({"train.epochs", &train.epochs, {1, 100'000}, {}, "passes over the training set"});
  t.push_back({"train.batch_size", &train.batch_size, {1, 1 << 20}, {},
               "images a step over all ranks; a multiple of the number of devices"});
  t.push_back({"train.print_freq", &train.print_freq, {1, 1e9}, {},
               "steps between two progress lines", false});
  t.push_back({"train.start_epoch", &train.start_epoch, {0, 100'000}, {},
               "epoch to begin with, counts from 0, once; default: the checkpoint's next one"});
  t.push_back({"train.eval_every", &train.eval_every, {1, 100'000}, {},
               "epochs between validations; the last epoch always has one"});
  t.push_back({"train.target_acc1", &train.target_acc1, {0, 100}, {},
               "top-1 validation accuracy, percent, at which the job is done; 0 = off"});
  t.push_back({"train.evaluate", &train.evaluate, {}, {}, "validate once and train nothing"});
  t.push_back({"train.nan_loss", slot_of(train.nan_loss), {}, kNanLosses,
               "loss that is not finite, without loss scaling: abort the job, or continue as PyTorch would"});
  t.push_back({"train.stop_after_steps", &train.stop_after_steps, {1, 1e15}, {},
               "end the job early after so many steps of the planned epochs"});
  t.push_back({"train.accumulate", &train.accumulate, {1, 1024}, {},
               "gradient accumulation: forward and backward passes that share one step"});
  t.push_back({"train.label_smoothing", &train.label_smoothing, {0, 0.999}, {},
               "share of the target spread over all classes; training loss only"});
  t.push_back({"train.ema_decay", &train.ema_decay, {0, 0.999999}, {},
               "moving average of the weights, validated and saved beside them; 0 = off"});
  t.push_back({"train.check_replicas_every", &train.check_replicas_every, {0, 1e15}, {},
               "steps between comparisons of the ranks' weights, bit by bit; 0 = only at checkpoints"});
  OptimizerConfig& opt = job.optimizer;
  t.push_back({"optimizer.lr", &opt.lr, {0, 1000}, {}, "base learning rate, for the global batch"});
  t.push_back({"optimizer.momentum", &opt.momentum, {0, 1}, {}, "SGD momentum"});
  t.push_back({"optimizer.weight_decay", &opt.weight_decay, {0, 1}, {},
               "L2 added to the gradient: this times w; profile tf: twice this times w"});
  t.push_back({"optimizer.nesterov", &opt.nesterov, {}, {},
               "Nesterov step; needs momentum above 0"});
  t.push_back({"optimizer.decay_bn", &opt.decay_bn, {}, {},
               "decay batch-norm parameters and biases too, as PyTorch does; unused by profile tf"});
  t.push_back({"optimizer.clip_grad_norm", &opt.clip_grad_norm, {0, 1e6}, {},
               "largest norm of all gradients together, longer ones are scaled; 0 = off"});
  ScheduleConfig& s = job.schedule;
  t.push_back({"schedule.kind", slot_of(s.kind), {}, kSchedules, "learning-rate schedule"});
  t.push_back({"schedule.per_step", &s.per_step, {}, {},
               "true: the learning rate follows the schedule at every step, not only at epoch borders; "
               "profile tf: always"});
  t.push_back({"schedule.warmup_epochs", &s.warmup_epochs, {0, 100'000}, {},
               "epochs of warm-up; fewer than train.epochs"});
  t.push_back({"schedule.warmup_form", slot_of(s.warmup_form), {}, kWarmupForms,
               "linear: from warmup_start to the full rate; next: lr * (epoch + 1) / warmup_epochs; constant: warmup_start"});
  t.push_back({"schedule.warmup_start", &s.warmup_start, {0, 1}, {},
               "first rate of the warm-up as a share of optimizer.lr; profile tf: always 0"});
  t.push_back({"schedule.end_lr", &s.end_lr, {0, 1000}, {}, "cosine, linear: the rate at the end"});
  t.push_back({"schedule.step_size", &s.step_size, {1, 100'000}, {}, "step: epochs between drops"});
  t.push_back({"schedule.gamma", &s.gamma, {0, 10, true}, {}, "step, multistep: factor of a drop; exponential: of an epoch"});
  t.push_back({"schedule.milestones", &s.milestones, {1, 100'000}, {},
               "multistep: epochs of the drops, ascending"});
}

void add_execution(std::vector<Field>& t, Job& job) {
  PrecisionConfig& p = job.precision;
  t.push_back({"precision.amp", &p.amp, {}, {}, "mixed precision: half compute, fp32 weights"});
  t.push_back({"precision.dtype", &p.dtype, {}, kHalfTypes, "half type of mixed precision"});
  t.push_back({"precision.loss_scale", LossScaleSlot{&p.loss_scale}, {0, 16'777'216, true}, {},
               "factor on the loss; a number stays fixed, dynamic adapts"});
  t.push_back({"precision.init_scale", &p.init_scale, {1, 16'777'216}, {}, "dynamic: first scale"});
  t.push_back({"precision.growth_interval", &p.growth_interval, {1, 1e9}, {},
               "dynamic: good steps in a row after which the scale doubles"});
  t.push_back({"precision.max_skips", &p.max_skips, {1, 1e6}, {},
               "steps skipped in a row, for gradients that are not finite, that end the job"});
  CollectivesConfig& c = job.collectives;
  t.push_back({"collectives.algorithm", slot_of(c.algorithm), {}, kAlgorithms,
               "how gradients are reduced; all give the same bits"});
  t.push_back({"collectives.allreduce_dtype", &c.allreduce_dtype, {}, kWireTypes,
               "type of gradients while they are reduced"});
  t.push_back({"collectives.bucket_bytes", BytesSlot{&c.bucket_bytes}, {kKiB, kKiB * kKiB * kKiB},
               {}, "gradients are reduced in buckets of this size"});
  t.push_back({"collectives.timeout", &c.timeout, {100, 86'400'000}, {},
               "longest wait for the other ranks in one collective"});
  t.push_back({"collectives.reconnect", &c.reconnect, {100, 3'600'000}, {},
               "how long a daemon that died is waited for before the run ends with it; 0 = not at all", false});
  CheckpointConfig& k = job.checkpoint;
  t.push_back({"checkpoint.every_epochs", &k.every_epochs, {0, 100'000}, {},
               "epochs between checkpoints, 0 = none by epoch"});
  t.push_back({"checkpoint.every_steps", &k.every_steps, {0, 1e15}, {},
               "steps between checkpoints, 0 = none by step"});
  t.push_back({"checkpoint.memory_every_steps", &k.memory_every_steps, {0, 1e15}, {},
               "steps between checkpoints in the daemon's memory, which outlive the ranks but not the daemon; 0 = none"});
  t.push_back({"checkpoint.keep", &k.keep, {1, 1000}, {}, "newest checkpoints kept"});
  t.push_back({"checkpoint.resume", ResumeSlot{&k.resume, &k.resume_path}, {}, {},
               "auto: newest checkpoint of this name if any; best: its best one; never; or a path with a '/'"});
  t.push_back({"checkpoint.resume_override", &k.resume_override, {}, kOverridable,
               "what this file may change when it resumes; anything else keeps the checkpoint's value"});
  RestartConfig& r = job.restart;
  t.push_back({"restart.max_restarts", &r.max_restarts, {0, 1e6}, {},
               "how often `npu launch` starts the job again after a failure, counted from the last new checkpoint; 0 = never",
               false});
  t.push_back({"restart.backoff", &r.backoff, {100, 30'000}, {},
               "wait before a restart; doubles with each one in a row without a new checkpoint, up to 30s", false});
  OutputConfig& o = job.output;
  t.push_back({"output.dir", &o.dir, {}, {},
               "folder for the run's curves, in a folder of the run's name; default: below the user's state "
               "directory", false});
  t.push_back({"output.tensorboard", &o.tensorboard, {}, {}, "write TensorBoard event files, too", false});
}

// clang-format on

}  // namespace

std::vector<Field> job_fields(Job& job) {
  std::vector<Field> t;
  t.push_back({"name", NameSlot{&job.name}, {}, {}, "name of the run and its checkpoint folder"});
  t.push_back({"devices",
               DevicesSlot{&job.devices},
               {},
               {},
               "devices to use, one rank each, in ascending order",
               false});
  t.push_back({"seed", &job.seed, {}, {}, "keys initial weights, sample order and augmentation"});
  t.push_back({"profile",
               slot_of(job.profile),
               {},
               kProfiles,
               "numeric conventions of the PyTorch or the TensorFlow ResNet script"});
  t.push_back(
      {"placement",
       slot_of(job.placement),
       {},
       kPlacements,
       "device sets that Ascend servers refuse (1, 2, 4 or 8; 2 and 4 within 0-3 or 4-7): off, "
       "warn, strict",
       false});
  ModelConfig& m = job.model;
  t.push_back({"model.arch",
               &m.arch,
               {},
               kArchs,
               "network; -32: 3x3 stem without pooling, for small images"});
  t.push_back({"model.num_classes", &m.num_classes, {2, 100'000}, {}, "outputs of the classifier"});
  t.push_back({"model.zero_init_residual",
               &m.zero_init_residual,
               {},
               {},
               "start each block's last batch norm at 0"});
  t.push_back({"model.pretrained",
               &m.pretrained,
               {},
               {},
               "safetensors file to start from, with the names of torchvision or pytorch-cifar"});
  t.push_back({"model.ignore_head",
               &m.ignore_head,
               {},
               {},
               "pretrained: leave the classifier (fc) as initialised, for other classes"});
  t.push_back(
      {"model.bn_buffers",
       slot_of(m.bn_buffers),
       {},
       kBnBuffers,
       "running statistics that are validated and saved: rank0, rank 0's, which the others take "
       "over; local, rank 0's, the others keep theirs; mean, all ranks'"});
  t.push_back(
      {"model.sync_bn", &m.sync_bn, {}, {}, "train on batch-norm statistics over all ranks"});
  add_data(t, job.data);
  add_training(t, job);
  add_execution(t, job);
  return t;
}

}  // namespace npu::config
