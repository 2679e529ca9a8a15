// The daemon's loggers by name (ctl eng ckpt live): lines of a few words and key=value, to the journal
// if it reads our stderr, else to stderr. log_event escapes what comes from clients.
#pragma once

#include <spdlog/logger.h>

#include <initializer_list>
#include <string_view>

#include "daemon/log_line.hpp"

namespace npu::daemon {

/// Starts logging through a bounded queue that drops the oldest rather than block the caller.
/// `levels` as NPU_LOG: "info,ckpt=debug"; unknown names are ignored.
void start_logging(std::string_view levels);
/// Other levels from now on; what is not named is at info.
void set_log_levels(std::string_view levels);
/// Writes what is queued; call before exit.
void stop_logging();

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

/// One line: `what` and the fields as key='text' or key=1. `what` is the kind of the line, so it is a
/// literal: more than some lines of one kind a second are counted instead (log_limit.hpp).
/// Thread: any. Cost: allocates; not for the collective path.
void log_event(Level level, const char* logger, std::string_view what,
               std::initializer_list<LogField> fields = {});
/// Says of each kind that has been quiet since how many lines were left out. Call once a second.
void log_suppressed();

/// For lines without fields and without text of clients. Thread: any.
[[nodiscard]] spdlog::logger& log(const char* name);

}  // namespace npu::daemon
