// TensorFlow's official ResNet (ResNet-50 v1.5, custom training loop) with the recipe it has built
// in.
#include <array>
#include <charconv>

#include "client/frontend/common.hpp"
#include "config/diagnostics.hpp"
#include "config/load.hpp"

namespace npu::frontend {
namespace {

Result<void> one_of(const Given& given, std::string_view flag,
                    std::initializer_list<std::string_view> allowed, std::string_view hint) {
  const std::string value = given.text(flag);
  std::string names;
  for (const std::string_view name : allowed) {
    if (value == name) return {};
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return fail(Code::kInvalidArgument, "--{} {}: expected one of {}{}", flag, config::quoted(value),
              names, hint);
}

Result<void> set_data(JobWriter& job, const Given& given, const Surroundings& around) {
  const bool synthetic = given.on("use_synthetic_data");
  job.set("model.arch", config::yaml_scalar(given.text("arch", "resnet50")));
  // TensorFlow's ImageNet has a class 0 for background.
  job.set("model.num_classes", fmt::format("{}", synthetic ? 1001 : around.data.num_classes));
  if (given.has("pretrained_filepath")) {
    job.set("model.pretrained", config::yaml_scalar(around.pretrained_file), "--pretrained_filepath");
  }
  if (synthetic) {
    set_imagenet_sized(job, "--use_synthetic_data");
  } else {
    set_folder(job, around.data, "--data_dir");
  }
  NPU_TRY(const std::string workers, given.integer("datasets_num_private_threads", "4"));
  job.set("data.workers", workers);
  return {};
}

Result<void> set_training(JobWriter& job, const Given& given, Translation& out) {
  NPU_TRY(std::string epochs, given.integer("train_epochs", "1"));
  NPU_TRY(const std::string batch, given.integer("batch_size", "32"));
  NPU_TRY(std::string evals, given.integer("epochs_between_evals", "1"));
  NPU_TRY(const std::string log_steps, given.integer("log_steps", "100"));
  if (given.has("train_steps")) epochs = "1";
  if (given.on("skip_eval")) {
    evals = epochs;
    out.remarks.emplace_back("--skip_eval: the last epoch is validated all the same");
  }
  job.set("train.epochs", epochs, given.has("train_steps") ? "--train_steps" : "--train_epochs");
  job.set("train.batch_size", batch, "--batch_size, over all devices");
  job.set("train.print_freq", log_steps, "--log_steps");
  job.set("train.eval_every", evals, "--epochs_between_evals");
  if (given.has("train_steps")) {
    NPU_TRY(const std::string steps, given.integer("train_steps", ""));
    job.set("train.stop_after_steps", steps, "--train_steps");
  }
  if (given.has("label_smoothing")) {
    NPU_TRY(const std::string share, given.number("label_smoothing", ""));
    job.set("train.label_smoothing", share, "--label_smoothing");
  }
  return {};
}

Result<void> set_optimizer(JobWriter& job, const Given& given) {
  NPU_TRY(const std::string batch, given.integer("batch_size", "32"));
  int64_t images = 0;
  std::from_chars(batch.data(), batch.data() + batch.size(), images);
  const std::string scaled = fmt::format("{}", 0.1 * static_cast<double>(images) / 256);
  NPU_TRY(const std::string lr, given.number("lr", scaled));
  NPU_TRY(const std::string momentum, given.number("momentum", "0.9"));
  NPU_TRY(const std::string decay, given.number("weight-decay", "0.0001"));
  job.set("optimizer.lr", lr, given.has("lr") ? "--lr" : "0.1 * batch / 256");
  job.set("optimizer.momentum", momentum);
  job.set("optimizer.weight_decay", decay, "counts w^2: a gradient of twice this times w");
  job.set("schedule.kind", "multistep");
  job.set("schedule.warmup_epochs", "5");
  job.set("schedule.milestones", "[30, 60, 80]");
  job.set("schedule.gamma", "0.1");
  return {};
}

Result<void> set_precision(JobWriter& job, const Given& given, Translation& out) {
  const std::string dtype = given.text("dtype", "fp32");
  if (given.has("dtype")) NPU_TRY_VOID(one_of(given, "dtype", {"fp32", "fp16", "bf16"}, ""));
  NPU_TRY(const std::string scale, loss_scale_text(given, dtype == "fp16" ? "128" : "1"));
  job.set("precision.amp", dtype == "fp32" ? "false" : "true", "--dtype " + dtype);
  if (dtype == "fp32") {
    if (given.has("loss_scale")) {
      out.remarks.emplace_back("--loss_scale has no effect with --dtype fp32");
    }
    return {};
  }
  job.set("precision.dtype", dtype);
  job.set("precision.loss_scale", scale, given.has("loss_scale") ? "--loss_scale" : "by --dtype");
  return {};
}

Result<void> set_collectives(JobWriter& job, const Given& given) {
  if (given.has("distribution_strategy")) {
    NPU_TRY_VOID(one_of(given, "distribution_strategy",
                        {"off", "default", "one_device", "mirrored"},
                        "; each is one process a device"));
  }
  if (given.has("all_reduce_alg")) {
    NPU_TRY_VOID(one_of(given, "all_reduce_alg", {"ring", "nccl", "hccl"}, ""));
    const bool ring = given.text("all_reduce_alg") == "ring";
    job.set("collectives.algorithm", ring ? "ring" : "auto", "--all_reduce_alg");
  }
  if (given.text("bytes_per_pack", "0") != "0") {
    NPU_TRY(const std::string bytes, given.integer("bytes_per_pack", ""));
    job.set("collectives.bucket_bytes", bytes, "--bytes_per_pack");
  }
  return {};
}

// The name of the run, by which it resumes: TensorFlow resumes by folder.
std::string name_of(const Given& given, const Surroundings& around) {
  std::string folder = given.text("model_dir");
  while (folder.ends_with('/')) folder.pop_back();
  if (!folder.empty()) folder = folder.substr(folder.rfind('/') + 1);
  if (folder.empty()) folder = given.on("use_synthetic_data") ? "synthetic" : around.data.name;
  return run_name(given.text("arch", "resnet50") + "-tf", folder);
}

}  // namespace

Result<Translation> translate_tf(const Given& given, const Surroundings& around) {
  Translation out;
  NPU_TRY(out.remarks, check_flags(given, true));
  NPU_TRY_VOID(check_place(given));
  NPU_TRY(const DeviceChoice devices, choose_devices(given, around.all_devices));
  NPU_TRY(const std::string seed, given.integer("seed", "0"));
  JobWriter job;
  job.set("name", config::yaml_scalar(name_of(given, around)));
  job.set("devices", config::yaml_scalar(devices.value), devices.from);
  job.set("seed", seed);
  job.set("profile", "tf", "--profile tf");
  NPU_TRY_VOID(set_data(job, given, around));
  NPU_TRY_VOID(set_training(job, given, out));
  NPU_TRY_VOID(set_optimizer(job, given));
  NPU_TRY_VOID(set_precision(job, given, out));
  NPU_TRY_VOID(set_collectives(job, given));
  job.set("checkpoint.every_epochs", "1");
  set_resume(job, given, around, given.on("clean") ? "never" : "auto");
  if (given.has("model_dir")) {
    job.set("output.dir", config::yaml_scalar(given.text("model_dir")), "--model_dir");
  }
  if (given.on("enable_tensorboard")) {
    job.set("output.tensorboard", "true", "--enable_tensorboard");
  }
  out.yaml = job.text("What the flags of `npu launch --profile tf` stand for.");
  return out;
}

}  // namespace npu::frontend
