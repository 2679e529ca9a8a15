// What /proc says of a process, read once. A name that a process chose is foreign text.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "shm/base/fd.hpp"

namespace npu::client {

struct ProcessStat {
  std::string name;  // at most 15 bytes, any bytes
  pid_t parent = 0;
  uint64_t cpu_ticks = 0, started_ticks = 0;  // of sysconf(_SC_CLK_TCK) a second
};

/// Nothing for a process that is gone or hidden.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t pid);

/// Refers to the process that has this number now, whatever comes later; empty when there is none.
[[nodiscard]] UniqueFd open_pidfd(pid_t pid) noexcept;

/// False once the process has ended.
[[nodiscard]] bool pidfd_alive(int pidfd) noexcept;

}  // namespace npu::client
