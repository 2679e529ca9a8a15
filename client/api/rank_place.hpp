// Which rank of how many this process is, as its environment says: torchrun's RANK, WORLD_SIZE and
// LOCAL_RANK, or Ascend's RANK_ID, RANK_SIZE and DEVICE_ID.
#pragma once

#include <functional>
#include <optional>

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

}  // namespace npu::client
