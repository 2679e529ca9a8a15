// Which processor a rank uses.
#pragma once

#include <vector>

namespace npu::client {

/// Processors this thread may use, ascending; {0} if they cannot be told.
[[nodiscard]] std::vector<int> allowed_cores();

/// The processor of each of `world` ranks of `threads` compute threads each, chosen from `allowed`,
/// or -1 for all of them: ranks of one thread that share the processors evenly stay where they are.
/// They meet in every collective, and whenever the kernel has five of eight on one of two processors
/// for a moment, the three others wait.
[[nodiscard]] std::vector<int> rank_cores(int world, int threads,
                                          const std::vector<int>& allowed);

/// The calling thread, and those it starts, use only `cores`. A wish: a container may allow fewer
/// by now. Async-signal-safe for one core.
void stay_on(int core) noexcept;
void stay_on(const std::vector<int>& cores) noexcept;

}  // namespace npu::client
