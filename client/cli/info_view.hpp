// The daemon's state as a table for people and as an object for programs.
#pragma once

#include <string>

#include "client/cli/info_state.hpp"

namespace npu::cli {

/// Two boxes, 78 columns, in the manner of npu-smi: devices, then who uses them. "NA" where nothing
/// is known; power and temperature of an emulated device are not invented. The text is not stable,
/// the JSON is.
[[nodiscard]] std::string info_table(const InfoState& state, bool colour);

/// {"schema":1,"devices":[...],"runs":[...],"warnings":[...],"daemon":{...},"time":...} on one
/// line; what is not known is null. `time`: seconds since 1970.
[[nodiscard]] std::string info_json(const InfoState& state, double time);

/// The same object for a daemon that does not answer: no devices, no runs, daemon null, and
/// "error".
[[nodiscard]] std::string info_error_json(const Error& error, double time);

}  // namespace npu::cli
