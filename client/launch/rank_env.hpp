// The environment that makes a process a rank: written by the launcher, read by `npu train`.
// torchrun's names are ours; Ascend's RANK_ID, RANK_SIZE and DEVICE_ID are read as well.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

struct RankPlace {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  std::optional<int> device{};  // DEVICE_ID, when it came in Ascend's words
};

/// Looks a variable up; nullptr when it is not set. std::getenv is one.
using GetEnv = std::function<const char*(const char* name)>;

/// Nothing when no variable of either family is set. Errors: invalid_argument (exit 64) naming the
/// variables that are missing, not a number, out of range, or that contradict each other.
[[nodiscard]] Result<std::optional<RankPlace>> rank_from_environment(const GetEnv& get);

/// 128 random bits as 32 hex digits. Errors: as getrandom(2) says.
[[nodiscard]] Result<std::string> random_run_key();

struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int threads = 1;  // compute threads a rank, unless the user set OMP_NUM_THREADS
  std::string socket{};
  std::string run_key{};
};

/// `base` (the launcher's own environment) with the rank's variables set and any other rank's
/// removed. OMP_WAIT_POLICY is passive unless set: a spinning pool starves the other ranks of a
/// small host.
[[nodiscard]] std::vector<std::string> rank_environment(const RankEnvironment& rank,
                                                        const char* const* base);

}  // namespace npu::client
