// The daemon's loggers by name (ctl eng ckpt live) and the one place that makes foreign text
// printable.
#pragma once

#include <spdlog/logger.h>

#include <string>
#include <string_view>

namespace npu::daemon {

/// Starts logging to stderr through a bounded queue that drops the oldest rather than block the
/// caller. `levels` as NPU_LOG: "info,ckpt=debug". Unknown names and levels are ignored.
void start_logging(std::string_view levels);
/// Writes what is queued; call before exit.
void stop_logging();

/// Thread: any. Cheap, but not for the collective path.
[[nodiscard]] spdlog::logger& log(const char* name);

/// Control characters and non-ASCII bytes become '?': text from clients must not forge log lines.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace npu::daemon
