// SIGTERM and SIGINT of a rank: the first asks the job to stop after its step, the second ends the
// process.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace npu::cli {

/// 0 until a signal came, then its number. One for the process: a signal handler has no other way
/// to say something.
[[nodiscard]] const std::atomic<int>& stop_signal() noexcept;

/// From here on the first signal only sets stop_signal(). Before, a signal ends the process, which
/// has nothing to save yet. Those of `launcher` (0: there is none) count as the first only: a
/// service manager signals all processes of a job, the launcher passes its own on, and both are one
/// request. A signal that is ignored stays so. Thread: any, once.
void stop_gracefully(pid_t launcher) noexcept;

}  // namespace npu::cli
