// What can be seen of a process from outside.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

namespace npu::test {

/// Descriptors of any process of this user; 0 if it is gone.
inline size_t open_fds(pid_t pid) {
  size_t n = 0;
  DIR* dir = ::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  if (dir == nullptr) return 0;
  while (const dirent* entry = ::readdir(dir)) n += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(dir);
  return n;
}

/// The letter of /proc/PID/stat: R, S, T for stopped, Z for ended; 0 when there is no such process.
inline char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t at = text.rfind(") ");
  return at == std::string::npos ? '\0' : text[at + 2];
}

}  // namespace npu::test
