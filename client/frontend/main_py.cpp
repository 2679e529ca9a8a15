// PyTorch's ImageNet main.py, with the flags that its move to NPUs added.
#include "client/frontend/common.hpp"
#include "config/load.hpp"

namespace npu::frontend {
namespace {

Result<void> set_model(JobWriter& job, const Given& given, const Surroundings& around) {
  const bool dummy = given.on("dummy");
  job.set("model.arch", config::yaml_scalar(given.text("arch", "resnet18")), "--arch");
  job.set("model.num_classes", fmt::format("{}", dummy ? 1000 : around.data.num_classes),
          dummy ? "ImageNet's" : "class folders in train/");
  if (given.has("pretrained")) {
    job.set("model.pretrained", config::yaml_scalar(around.pretrained_file), "--pretrained");
  }
  return {};
}

Result<void> set_training(JobWriter& job, const Given& given) {
  NPU_TRY(const std::string epochs, given.integer("epochs", "90"));
  NPU_TRY(const std::string batch, given.integer("batch-size", "256"));
  NPU_TRY(const std::string freq, given.integer("print-freq", "10"));
  job.set("train.epochs", epochs, "--epochs");
  job.set("train.batch_size", batch, "--batch-size, over all devices");
  job.set("train.print_freq", freq, "--print-freq");
  if (given.has("start-epoch")) {
    NPU_TRY(const std::string start, given.integer("start-epoch", "0"));
    job.set("train.start_epoch", start, "--start-epoch");
  }
  if (given.on("evaluate")) job.set("train.evaluate", "true", "--evaluate");
  NPU_TRY(const std::string lr, given.number("lr", "0.1"));
  NPU_TRY(const std::string momentum, given.number("momentum", "0.9"));
  NPU_TRY(const std::string decay, given.number("weight-decay", "0.0001"));
  job.set("optimizer.lr", lr, "--lr");
  job.set("optimizer.momentum", momentum, "--momentum");
  job.set("optimizer.weight_decay", decay, "--weight-decay");
  job.set("schedule.kind", "step", "main.py's; constant is what its move to NPUs left");
  job.set("schedule.step_size", "30");
  job.set("schedule.gamma", "0.1");
  return {};
}

Result<void> set_precision(JobWriter& job, const Given& given, Translation& out) {
  job.set("precision.amp", given.on("amp") ? "true" : "false", "--amp");
  NPU_TRY(const std::string scale, loss_scale_text(given, "1024"));
  job.set("precision.loss_scale", scale, "--loss_scale");
  if (given.has("loss_scale") && !given.on("amp")) {
    out.remarks.emplace_back("--loss_scale has no effect without --amp");
  }
  return {};
}

}  // namespace

bool wants_synthetic(const Given& given) noexcept {
  return given.on("dummy") || given.on("use_synthetic_data");
}

Result<Translation> translate_main_py(const Given& given, const Surroundings& around) {
  Translation out;
  NPU_TRY(out.remarks, check_flags(given, false));
  NPU_TRY_VOID(check_place(given));
  NPU_TRY(const DeviceChoice devices, choose_devices(given, around.all_devices));
  NPU_TRY(const std::string seed, given.integer("seed", "0"));
  NPU_TRY(const std::string workers, given.integer("workers", "4"));
  JobWriter job;
  const std::string data = given.on("dummy") ? "dummy" : around.data.name;
  job.set("name", config::yaml_scalar(run_name(given.text("arch", "resnet18"), data)));
  job.set("devices", config::yaml_scalar(devices.value), devices.from);
  job.set("seed", seed, "--seed");
  job.set("profile", "pytorch");
  NPU_TRY_VOID(set_model(job, given, around));
  if (given.on("dummy")) {
    set_imagenet_sized(job, "--dummy");
  } else {
    set_folder(job, around.data, "DATA_DIR");
  }
  job.set("data.workers", workers, "--workers, shared out over the ranks");
  NPU_TRY_VOID(set_training(job, given));
  NPU_TRY_VOID(set_precision(job, given, out));
  job.set("checkpoint.every_epochs", "1");
  // An evaluation needs weights: without --resume those of the run's newest checkpoint.
  set_resume(job, given, around, given.on("evaluate") ? "auto" : "never");
  if (given.has("dist-url")) {
    out.remarks.push_back(
        fmt::format("--dist-url {} has no effect: ranks meet in the daemon, no port is opened",
                    given.text("dist-url")));
  }
  out.yaml = job.text("What the flags of `npu launch` stand for.");
  return out;
}

}  // namespace npu::frontend
