// The daemon's state as a table for people and as an object for programs.
#pragma once

#include <string>

#include "client/api/admin.hpp"

namespace npu::cli {

/// Two boxes, 78 columns, in the manner of npu-smi: devices, then who uses them. "NA" where nothing
/// is known; power and temperature of an emulated device are not invented. The text is not stable,
/// the JSON is.
[[nodiscard]] std::string info_table(const client::DaemonInfo& info);

/// {"schema":1,"devices":[...],"runs":[...]} on one line; fields of an idle device are null.
[[nodiscard]] std::string info_json(const client::DaemonInfo& info);

}  // namespace npu::cli
