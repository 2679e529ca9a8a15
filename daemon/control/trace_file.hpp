// The flight recorder of an aborted run on disk: <state-dir>/traces/<uid>-<run>-<generation>.json,
// so that it can be read when the daemon is gone, too. A convenience: nothing depends on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu::daemon {

inline constexpr const char* kTraceDir = "traces";
inline constexpr size_t kTraceFiles = 8;

/// Writes `text` as `name` (0600) below the traces directory of `state_dir`, whole or not at all,
/// and removes all but the newest kTraceFiles. Returns the path. Errors: as errno says. Not
/// flushed: a power cut may take it. Thread: the checkpoint thread.
[[nodiscard]] Result<std::string> write_trace_file(const std::string& state_dir,
                                                   const std::string& name, std::string_view text);

}  // namespace npu::daemon
