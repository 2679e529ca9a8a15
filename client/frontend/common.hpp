// What both translations share. Internal to client/frontend.
#pragma once

#include "client/frontend/job_writer.hpp"
#include "client/frontend/translate.hpp"

namespace npu::frontend {

/// --device, --addr, --dist-url, back end, --world-size, --rank: where ranks are and meet. Errors:
/// invalid_argument for anything that is not this host's emulated NPUs.
[[nodiscard]] Result<void> check_place(const Given& given);

/// The flag that names the devices and its value; `all` when none does. Errors: invalid_argument
/// when two of them disagree.
struct DeviceChoice {
  std::string value, from;
};
[[nodiscard]] Result<DeviceChoice> choose_devices(const Given& given, const std::string& all);

/// data.* of synthetic images of ImageNet's number and size.
void set_imagenet_sized(JobWriter& job, std::string_view from);
/// data.* of a folder.
void set_folder(JobWriter& job, const DataFacts& data, std::string_view from);
/// checkpoint.resume; `otherwise` when --resume is not given.
void set_resume(JobWriter& job, const Given& given, const Surroundings& around,
                std::string_view otherwise);
/// precision.loss_scale from --loss_scale if given. Errors: invalid_argument (neither number nor
/// "dynamic").
[[nodiscard]] Result<std::string> loss_scale_text(const Given& given, std::string_view otherwise);

/// "--lr 0.8".
[[nodiscard]] std::string origin(const Given& given, std::string_view flag);

}  // namespace npu::frontend
