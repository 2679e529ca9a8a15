// The environment that makes a process a rank, as the launcher writes it: torchrun's names. What
// reads it is client/api/rank_place.hpp. And the exit code that both know beside those of
// sysexits(3).
#pragma once

#include <string>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

/// A rank was asked to stop by a signal: its step is finished and saved, there is more to train.
inline constexpr int kExitStopped = 80;

/// 128 random bits as 32 hex digits. Errors: as getrandom(2) says.
[[nodiscard]] Result<std::string> random_run_key();

struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int threads = 1;  // compute threads a rank, unless the user set OMP_NUM_THREADS
  std::string socket{};
  std::string run_key{};
};

/// `base` (the launcher's own environment) with the rank's variables set, any other rank's removed,
/// and those that the launcher has turned into device numbers. OMP_WAIT_POLICY is passive unless
/// set: a spinning pool starves the other ranks of a small host.
[[nodiscard]] std::vector<std::string> rank_environment(const RankEnvironment& rank,
                                                        const char* const* base);

}  // namespace npu::client
