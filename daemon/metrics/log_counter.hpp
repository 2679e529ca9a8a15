// Log messages by level. A sink beside the real one, so that what was not written is not counted.
#pragma once

#include <spdlog/common.h>

#include <cstdint>

namespace npu::daemon {

/// The one of this process; give it to each logger.
[[nodiscard]] spdlog::sink_ptr log_counter();

/// Thread: any.
[[nodiscard]] uint64_t logged_messages(spdlog::level::level_enum level) noexcept;
/// Pushed out of the logger's queue before they were written.
[[nodiscard]] uint64_t dropped_messages();

}  // namespace npu::daemon
