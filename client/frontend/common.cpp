#include "client/frontend/common.hpp"

#include <algorithm>
#include <array>

#include "client/frontend/host.hpp"
#include "config/diagnostics.hpp"
#include "config/load.hpp"

namespace npu::frontend {
namespace {

Result<void> check_backend(const Given& given) {
  const std::string dash = given.text("dist-backend"), underscore = given.text("dist_backend");
  if (given.has("dist-backend") && given.has("dist_backend") && dash != underscore) {
    return fail(Code::kInvalidArgument,
                "--dist-backend {} but --dist_backend {}; give one, or the same twice",
                config::quoted(dash), config::quoted(underscore));
  }
  const std::string backend = given.has("dist-backend") ? dash : underscore;
  if (backend.empty() || backend == "hccl") return {};
  return fail(Code::kInvalidArgument,
              "--dist-backend {}: the collectives here are those of the daemon, called hccl; there "
              "is no other back end",
              config::quoted(backend));
}

Result<void> check_device_kind(const Given& given) {
  const std::string device = given.text("device", "npu");
  if (device == "npu") return {};
  if (device == "gpu" || device == "cuda") {
    return fail(Code::kInvalidArgument,
                "--device {}: nothing here runs on a GPU; the one device kind is npu", device);
  }
  return fail(Code::kInvalidArgument, "--device {}: the one device kind is npu",
              config::quoted(device));
}

// `flag` is a count or number of nodes: one value is meant, -1 is main.py's default.
Result<void> check_node(const Given& given, std::string_view flag, std::string_view only,
                        const char* what) {
  NPU_TRY(const std::string value, given.integer(flag, "-1"));
  if (value == only || value == "-1") return {};
  return fail(Code::kInvalidArgument, "--{} {}: {}; use {}, or leave it out", flag, value, what,
              only);
}

}  // namespace

Result<void> check_place(const Given& given) {
  NPU_TRY_VOID(check_device_kind(given));
  NPU_TRY_VOID(check_backend(given));
  NPU_TRY_VOID(check_node(given, "world-size", "1",
                          "it counts nodes, and there is one; --device_list says how many ranks"));
  NPU_TRY_VOID(check_node(given, "rank", "0", "it numbers nodes, and there is one"));
  if (given.has("addr")) NPU_TRY_VOID(check_host("--addr", given.text("addr")));
  if (given.has("dist-url")) NPU_TRY_VOID(check_dist_url(given.text("dist-url")));
  return {};
}

Result<DeviceChoice> choose_devices(const Given& given, const std::string& all) {
  std::vector<DeviceChoice> choices;
  if (given.has("device_list")) {
    choices.push_back({given.text("device_list"), origin(given, "device_list")});
  }
  if (given.has("gpu")) {
    NPU_TRY(const std::string id, given.integer("gpu", ""));
    choices.push_back({id, origin(given, "gpu")});
  }
  if (given.has("num_gpus")) {
    NPU_TRY(const std::string text, given.integer("num_gpus", ""));
    const bool small = text.size() == 1 && text[0] >= '0' && text[0] <= '8';
    if (!small) {
      return fail(Code::kInvalidArgument, "--num_gpus {}: this host has 8 devices; use 1 to 8",
                  text);
    }
    if (text != "0") {
      choices.push_back(
          {text == "1" ? "0" : fmt::format("0-{}", text[0] - '1'), origin(given, "num_gpus")});
    }
  }
  if (choices.empty()) return DeviceChoice{all, "all that are visible"};
  for (const DeviceChoice& other : choices) {
    if (other.value != choices.front().value) {
      return fail(Code::kInvalidArgument, "{} but {}; give one of them", choices.front().from,
                  other.from);
    }
  }
  return choices.front();
}

void set_imagenet_sized(JobWriter& job, std::string_view from) {
  job.set("data.format", "synthetic", from);
  job.set("data.train_samples", "1281167");
  job.set("data.val_samples", "50000");
  job.set("data.image_size", "224");
  job.set("data.channels", "3");
}

void set_folder(JobWriter& job, const DataFacts& data, std::string_view from) {
  using config::DataFormat;
  constexpr std::array<const char*, 4> kNames = {"imagefolder", "idx", "cifar10", "cifar100"};
  const bool folder = data.format == DataFormat::kImageFolder;
  job.set("data.format", kNames.at(static_cast<size_t>(data.format)));
  job.set("data.path", config::yaml_scalar(data.path), from);
  job.set("data.augment", folder ? "imagenet" : "cifar");
}

void set_resume(JobWriter& job, const Given& given, const Surroundings& around,
                std::string_view otherwise) {
  if (!given.has("resume")) return job.set("checkpoint.resume", std::string(otherwise));
  const std::string value = given.text("resume");
  const bool word = value == "auto" || value == "best" || value == "never";
  job.set("checkpoint.resume", word ? value : config::yaml_scalar(around.resume_folder), "--resume");
}

Result<std::string> loss_scale_text(const Given& given, std::string_view otherwise) {
  const std::string value = given.text("loss_scale", otherwise);
  if (value == "dynamic") return value;
  auto number = given.number("loss_scale", otherwise);
  if (number) return number;
  return fail(Code::kInvalidArgument, "--loss_scale: {} is neither a finite number nor 'dynamic'",
              config::quoted(value));
}

std::string origin(const Given& given, std::string_view flag) {
  return fmt::format("--{} {}", flag, given.text(flag));
}

}  // namespace npu::frontend
