#include "client/cli/passive_wait.hpp"

#include <unistd.h>

#include <cstdlib>

namespace npu::cli {

void wait_passively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe", argv);
  // Not fatal: the pool spins, which is slow on a small host and right everywhere.
}

}  // namespace npu::cli
