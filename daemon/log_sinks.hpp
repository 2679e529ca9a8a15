// Where log lines end up: the journal with a field for each key, or stderr as text.
#pragma once

#include <spdlog/sinks/sink.h>

#include <memory>

namespace npu::daemon {

/// True if stderr is a stream of the journal: JOURNAL_STREAM names its device and inode. A service whose
/// stderr was sent elsewhere has the variable, too, and means that other place.
[[nodiscard]] bool stderr_is_journal();

/// MESSAGE is the whole line; PRIORITY, NPU_LOGGER and NPU_<KEY> for each field. A line that the
/// journal does not take goes to stderr.
[[nodiscard]] std::shared_ptr<spdlog::sinks::sink> journal_sink();
/// Time, level, logger, thread and the line.
[[nodiscard]] std::shared_ptr<spdlog::sinks::sink> stderr_sink();

}  // namespace npu::daemon
