// The process itself, as the kernel counts it.
#pragma once

#include <cstdint>

namespace npu::daemon {

struct ProcessStats {
  double cpu_seconds = 0;  // user and system
  uint64_t resident_bytes = 0, virtual_bytes = 0;
  uint64_t threads = 0;
  uint64_t open_fds = 0, max_fds = 0;
};

/// What cannot be read stays 0. Cost: some ten system calls and one for every few descriptors.
[[nodiscard]] ProcessStats read_process_stats();

}  // namespace npu::daemon
