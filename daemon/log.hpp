// The daemon's loggers by name (ctl eng ckpt live). Text from clients goes through printable() before it comes here.
#pragma once

#include <spdlog/logger.h>

#include <string_view>

namespace npu::daemon {

/// Starts logging to stderr through a bounded queue that drops the oldest rather than block the
/// caller. `levels` as NPU_LOG: "info,ckpt=debug". Unknown names and levels are ignored.
void start_logging(std::string_view levels);
/// Writes what is queued; call before exit.
void stop_logging();

/// Thread: any. Cheap, but not for the collective path.
[[nodiscard]] spdlog::logger& log(const char* name);

}  // namespace npu::daemon
