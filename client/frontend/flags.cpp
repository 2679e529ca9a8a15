#include "client/frontend/flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "config/diagnostics.hpp"

namespace npu::frontend {
namespace {

using enum FlagFamily;
using enum FlagKind;
using enum FlagEffect;

// One row a flag, where the formatter would make it one line a member.
// clang-format off
constexpr FlagSpec kMainPyFlags[] = {
    {"arch", "-a,--arch", kBoth, kValue, kMapped, "network (resnet18; profile tf: resnet50)"},
    {"workers", "-j,--workers", kMainPy, kValue, kMapped, "loader threads of the whole job (4)"},
    {"epochs", "--epochs", kMainPy, kValue, kMapped, "passes over the training set (90)"},
    {"start-epoch", "--start-epoch", kMainPy, kValue, kMapped, "first epoch, counts from 0"},
    {"batch-size", "-b,--batch-size", kMainPy, kValue, kMapped, "images a step over all devices (256)"},
    {"lr", "--lr,--learning-rate", kBoth, kValue, kMapped, "base learning rate (0.1; profile tf: 0.1 * batch / 256)"},
    {"momentum", "--momentum", kBoth, kValue, kMapped, "SGD momentum (0.9)"},
    {"weight-decay", "--wd,--weight-decay", kBoth, kValue, kMapped, "weight decay (1e-4)"},
    {"print-freq", "-p,--print-freq", kMainPy, kValue, kMapped, "steps between two progress lines (10)"},
    {"resume", "--resume", kBoth, kValue, kMapped, "checkpoint folder to go on from, or auto: the run's newest"},
    {"evaluate", "-e,--evaluate", kMainPy, kSwitch, kMapped, "validate once and train nothing"},
    {"pretrained", "--pretrained", kMainPy, kOptionalValue, kMapped, "first weights, a safetensors file with torchvision's names"},
    {"seed", "--seed", kBoth, kValue, kMapped, "keys weights, sample order and augmentation (0)"},
    {"dummy", "--dummy", kMainPy, kSwitch, kMapped, "made-up images, as many as ImageNet has"},
    {"world-size", "--world-size", kMainPy, kValue, kMapped, "nodes; there is one"},
    {"rank", "--rank", kMainPy, kValue, kMapped, "number of this node; it is 0"},
    {"dist-url", "--dist-url", kMainPy, kValue, kMapped, "no effect, ranks meet in the daemon; another host is refused"},
    {"dist-backend", "--dist-backend", kMainPy, kValue, kMapped, "hccl"},
    {"dist_backend", "--dist_backend", kMainPy, kValue, kMapped, "the same in the migrated script's spelling"},
    {"multiprocessing-distributed", "--multiprocessing-distributed", kMainPy, kSwitch, kMapped, "one process a device, which is always so"},
    {"gpu", "--gpu", kMainPy, kValue, kMapped, "the only device to use"},
    {"device", "--device", kBoth, kValue, kMapped, "npu"},
    {"addr", "--addr", kBoth, kValue, kMapped, "127.0.0.1: ranks are on this host"},
    {"device_list", "--device_list", kBoth, kValue, kMapped, "devices, one rank each (all that are visible)"},
    {"amp", "--amp", kMainPy, kSwitch, kMapped, "mixed precision"},
    {"loss_scale", "--loss_scale", kBoth, kValue, kMapped, "loss scale of mixed precision: a number, or dynamic (-1)"},
    {"no-accel", "--no-accel", kMainPy, kSwitch, kRefused, "training without devices does not exist here; for one device use --device_list 0"},
};

constexpr FlagSpec kTfFlags[] = {
    {"data_dir", "--data_dir", kTf, kValue, kMapped, "folder with train/ and val/"},
    {"model_dir", "--model_dir", kTf, kValue, kMapped, "folder of the curves; its name becomes part of the run's, and a run resumes by name"},
    {"clean", "--clean", kTf, kSwitch, kMapped, "start from zero even if the run has a checkpoint"},
    {"batch_size", "--batch_size", kTf, kValue, kMapped, "images a step over all devices (32)"},
    {"train_epochs", "--train_epochs", kTf, kValue, kMapped, "passes over the training set (1)"},
    {"train_steps", "--train_steps", kTf, kValue, kMapped, "steps of one epoch, then end"},
    {"epochs_between_evals", "--epochs_between_evals", kTf, kValue, kMapped, "epochs between validations (1)"},
    {"skip_eval", "--skip_eval,!--noskip_eval", kTf, kSwitch, kMapped, "validate after the last epoch only"},
    {"dtype", "--dtype", kTf, kValue, kMapped, "fp32, fp16 or bf16 (fp32)"},
    {"use_synthetic_data", "--use_synthetic_data,!--nouse_synthetic_data", kTf, kSwitch, kMapped, "made-up images of ImageNet's number and shape, 1001 classes"},
    {"single_l2_loss_op", "--single_l2_loss_op,!--nosingle_l2_loss_op", kTf, kSwitch, kNoEffect, "the L2 loss is the same by either way"},
    {"enable_tensorboard", "--enable_tensorboard,!--noenable_tensorboard", kTf, kSwitch, kMapped, "write TensorBoard event files"},
    {"log_steps", "--log_steps", kTf, kValue, kMapped, "steps between two progress lines (100)"},
    {"num_gpus", "--num_gpus", kTf, kValue, kMapped, "devices 0 to N-1; 0: as --device_list says"},
    {"distribution_strategy", "--distribution_strategy", kTf, kValue, kMapped, "off, one_device, default or mirrored"},
    {"bytes_per_pack", "--bytes_per_pack", kTf, kValue, kMapped, "size of a gradient bucket (0: 4 MiB)"},
    {"all_reduce_alg", "--all_reduce_alg", kTf, kValue, kMapped, "ring, nccl or hccl (chosen by cost)"},
    {"label_smoothing", "--label_smoothing", kTf, kValue, kMapped, "share of the target spread over all classes"},
    {"pretrained_filepath", "--pretrained_filepath", kTf, kValue, kMapped, "first weights, a safetensors file"},
    {"num_packs", "--num_packs", kTf, kValue, kNoEffect, "buckets have a size, not a number; see --bytes_per_pack"},
    {"steps_per_loop", "--steps_per_loop", kTf, kValue, kNoEffect, "the host starts every step"},
    {"report_accuracy_metrics", "--report_accuracy_metrics,!--noreport_accuracy_metrics", kTf, kSwitch, kNoEffect, "accuracy is always reported"},
    {"data_format", "--data_format", kTf, kValue, kNoEffect, "activations are always channels_last"},
    {"use_tensor_lr", "--use_tensor_lr,!--nouse_tensor_lr", kTf, kSwitch, kNoEffect, "the rate always follows the step"},
    {"use_tf_function", "--use_tf_function,!--nouse_tf_function", kTf, kSwitch, kNoEffect, "there is no graph to trace"},
    {"use_tf_while_loop", "--use_tf_while_loop,!--nouse_tf_while_loop", kTf, kSwitch, kNoEffect, "there is no graph to trace"},
    {"run_eagerly", "--run_eagerly,!--norun_eagerly", kTf, kSwitch, kNoEffect, "there is no graph to trace"},
    {"enable_eager", "--enable_eager,!--noenable_eager", kTf, kSwitch, kNoEffect, "there is no graph to trace"},
    {"enable_get_next_as_optional", "--enable_get_next_as_optional,!--noenable_get_next_as_optional", kTf, kSwitch, kNoEffect, "all ranks have the same number of steps"},
    {"batchnorm_spatial_persistent", "--batchnorm_spatial_persistent,!--nobatchnorm_spatial_persistent", kTf, kSwitch, kNoEffect, "a setting of cuDNN"},
    {"tf_gpu_thread_mode", "--tf_gpu_thread_mode", kTf, kValue, kNoEffect, "a setting of CUDA"},
    {"per_gpu_thread_count", "--per_gpu_thread_count", kTf, kValue, kNoEffect, "a setting of CUDA"},
    {"inter_op_parallelism_threads", "--inter_op_parallelism_threads", kTf, kValue, kNoEffect, "OMP_NUM_THREADS sets the threads of a rank"},
    {"intra_op_parallelism_threads", "--intra_op_parallelism_threads", kTf, kValue, kNoEffect, "OMP_NUM_THREADS sets the threads of a rank"},
    {"datasets_num_private_threads", "--datasets_num_private_threads", kTf, kValue, kMapped, "loader threads of the whole job (4)"},
    {"training_dataset_cache", "--training_dataset_cache,!--notraining_dataset_cache", kTf, kSwitch, kNoEffect, "--set data.cache_bytes=4GiB says how much to keep"},
    {"enable_checkpoint_and_export", "--enable_checkpoint_and_export,!--noenable_checkpoint_and_export", kTf, kSwitch, kNoEffect, "checkpoints are always written; --set checkpoint.every_epochs=0 turns them off"},
    {"enable_xla", "--enable_xla", kTf, kSwitch, kRefused, "there is no XLA compiler here; leave it out"},
    {"tpu", "--tpu", kTf, kValue, kRefused, "there are no TPUs here; the devices are NPUs, --device_list names them"},
    {"tpu_zone", "--tpu_zone", kTf, kValue, kRefused, "there are no TPUs here; leave it out"},
    {"pruning_method", "--pruning_method", kTf, kValue, kRefused, "pruning does not exist here; train dense"},
    {"pruning_schedule", "--pruning_schedule", kTf, kValue, kRefused, "pruning does not exist here; train dense"},
    {"worker_hosts", "--worker_hosts", kTf, kValue, kRefused, "all ranks are on this host; leave it out"},
    {"task_index", "--task_index", kTf, kValue, kRefused, "all ranks are on this host; leave it out"},
    {"profile_steps", "--profile_steps", kTf, kValue, kRefused, "`npu bench step` times a step by layer and kernel"},
    {"export_dir", "--export_dir", kTf, kValue, kRefused, "`npu ckpt export RUN --to FILE.safetensors` does it after the run"},
    {"use_trivial_model", "--use_trivial_model", kTf, kSwitch, kRefused, "use -a resnet8 for a small network"},
    {"fp16_implementation", "--fp16_implementation", kTf, kValue, kRefused, "there is one implementation; --dtype fp16 chooses it"},
};
// clang-format on

constexpr size_t kCount = std::size(kMainPyFlags) + std::size(kTfFlags);
constexpr std::array<FlagSpec, kCount> kSpecs = [] {
  std::array<FlagSpec, kCount> all{};
  std::ranges::copy(kTfFlags, std::ranges::copy(kMainPyFlags, all.begin()).out);
  return all;
}();

}  // namespace

std::span<const FlagSpec> flag_specs() noexcept { return kSpecs; }

bool Given::on(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && found->second == "true";
}

std::string Given::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::string(otherwise);
}

Result<std::string> Given::integer(std::string_view name, std::string_view otherwise) const {
  const std::string value = text(name, otherwise);
  int64_t parsed = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, parsed);
  if (error == std::errc() && end == last) return fmt::format("{}", parsed);
  return fail(Code::kInvalidArgument, "--{}: {} is not a whole number", name,
              config::quoted(value));
}

Result<std::string> Given::number(std::string_view name, std::string_view otherwise) const {
  const std::string value = text(name, otherwise);
  double parsed = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, parsed);
  if (error == std::errc() && end == last && std::isfinite(parsed)) {
    return fmt::format("{}", parsed);
  }
  return fail(Code::kInvalidArgument, "--{}: {} is not a finite number", name,
              config::quoted(value));
}

Result<std::vector<std::string>> check_flags(const Given& given, bool tf) {
  std::vector<std::string> remarks;
  for (const FlagSpec& spec : kSpecs) {
    if (!given.has(spec.name)) continue;
    if (!tf && spec.family == kTf) {
      return fail(Code::kInvalidArgument, "--{} is a flag of TensorFlow's script; add --profile tf",
                  spec.name);
    }
    if (tf && spec.family == kMainPy) {
      return fail(Code::kInvalidArgument,
                  "--{} is a flag of main.py; with --profile tf use TensorFlow's, see --help",
                  spec.name);
    }
    if (spec.effect == kRefused) {
      // Turned off is what happens anyway.
      if (spec.kind == kSwitch && !given.on(spec.name)) continue;
      return fail(Code::kInvalidArgument, "--{}: {}", spec.name, spec.about);
    }
    if (spec.effect == kNoEffect) {
      remarks.push_back(fmt::format("--{} has no effect: {}", spec.name, spec.about));
    }
  }
  return remarks;
}

}  // namespace npu::frontend
