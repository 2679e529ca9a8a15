// Memory and processor time of a process as /proc has them.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/error.hpp"

namespace npu::client {

struct ProcessMemory {
  uint64_t peak_bytes = 0;    // VmHWM: most that was resident at one time
  uint64_t shared_bytes = 0;  // RssShmem: of what is resident now, shared memory (a device arena)
};

/// Of process `pid`, "self" for the caller. Errors: not_found; data_loss (no such lines in it).
[[nodiscard]] Result<ProcessMemory> process_memory(const std::string& pid);

/// Milliseconds that all threads of `pid` have run, in the kernel, too; in ticks of 10 ms.
/// Errors: as process_memory.
[[nodiscard]] Result<double> process_cpu_ms(const std::string& pid);

}  // namespace npu::client
