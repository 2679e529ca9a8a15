// The HCCL_* variables, for programs that come from there: read with HCCL's meaning and ranges, or
// refused with them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/api/collective_env.hpp"

namespace npu::client {

/// What HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT, HCCL_ALGO, HCCL_BUFFSIZE and HCCL_DETERMINISTIC
/// say.
///   CONNECT_TIMEOUT  120 to 7200 s: how long a rank waits for the others to join
///   EXEC_TIMEOUT     1 to 17340 s, rounded down to a multiple of 68 and at least 68; 0 = never
///   ALGO             "level0:NA;level1:ring", or "allreduce=level0:ring/others=level0:NA". One
///   host
///                    has one level: level0 counts, if it is NA level1
///   BUFFSIZE         MB, at least 1; no effect, collectives work in place
///   DETERMINISTIC    false, true or strict; no effect, results always have the same bits
struct HcclEnv {
  std::array<std::optional<shm::Algorithm>, shm::kOpCount> algorithm{};
  std::optional<milliseconds> timeout;  // 0 = never
  std::optional<milliseconds> join_timeout;
  std::vector<std::string> remarks;  // what was rounded, or has no effect
};

/// `get` as std::getenv; an empty variable is not set. Errors: invalid_argument, exit 78, naming
/// variable, value and range.
[[nodiscard]] Result<HcclEnv> hccl_environment(const std::function<const char*(const char*)>& get);

}  // namespace npu::client
