#include "client/launch/cores.hpp"

#include <sched.h>

namespace npu::client {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);  // more processors than the set can hold
  return cores;
}

std::vector<int> rank_cores(int world, int threads, const std::vector<int>& allowed) {
  std::vector<int> cores(static_cast<size_t>(world), -1);
  const auto count = static_cast<int>(allowed.size());
  if (threads > 1 || count < 2 || world < count || world % count != 0) return cores;
  for (int rank = 0; rank < world; ++rank) {
    cores[static_cast<size_t>(rank)] = allowed[static_cast<size_t>(rank * count / world)];
  }
  return cores;
}

void stay_on(int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

void stay_on(const std::vector<int>& cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace npu::client
