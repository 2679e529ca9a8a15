#include "client/launch/process_stat.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace npu::client {

std::optional<ProcessStat> process_stat(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::ostringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  // The name may hold anything, brackets and blanks included.
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat out{.name = text.substr(open + 1, close - open - 1)};
  std::istringstream fields(text.substr(close + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {  // proc(5) counts from 1
    const uint64_t value = std::strtoull(field.c_str(), nullptr, 10);
    if (i == 4) out.parent = static_cast<pid_t>(value);
    if (i == 14 || i == 15) out.cpu_ticks += value;
    if (i == 22) out.started_ticks = value;
  }
  return out;
}

UniqueFd open_pidfd(pid_t pid) noexcept {
  return UniqueFd(pid <= 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool pidfd_alive(int pidfd) noexcept {
  pollfd ready{pidfd, POLLIN, 0};
  return ::poll(&ready, 1, 0) == 0;
}

}  // namespace npu::client
