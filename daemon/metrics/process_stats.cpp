#include "daemon/metrics/process_stats.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace npu::daemon {
namespace {

double seconds(const timeval& t) noexcept {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

uint64_t count_entries(const char* directory) {
  std::error_code ec;
  uint64_t n = 0;
  for (auto it = std::filesystem::directory_iterator(directory, ec); !ec && it != std::filesystem::directory_iterator();
       it.increment(ec)) {
    ++n;
  }
  return n;
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) stats.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  uint64_t virtual_pages = 0, resident_pages = 0;
  if (std::ifstream file("/proc/self/statm"); file >> virtual_pages >> resident_pages) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    stats.virtual_bytes = virtual_pages * page;
    stats.resident_bytes = resident_pages * page;
  }
  stats.threads = count_entries("/proc/self/task");
  const uint64_t fds = count_entries("/proc/self/fd");
  stats.open_fds = fds > 0 ? fds - 1 : 0;  // without the one that looked
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = limit.rlim_cur;
  return stats;
}

}  // namespace npu::daemon
