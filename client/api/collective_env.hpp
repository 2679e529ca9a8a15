// NPU_COLL_ALGO, NPU_COLL_TIMEOUT and HCCL's variables: what a user sets around a program to change
// how its collectives run, without touching the program or its job file.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_data.hpp"

namespace npu::client {

/// Order of precedence: an option of the call, these, the job file, the daemon's cost model.
struct CollectiveEnv {
  std::array<shm::Algorithm, shm::kOpCount> algorithm{};  // by operation; kAuto = not set
  std::optional<milliseconds> timeout;                    // 0 = never
  std::optional<milliseconds> join_timeout;               // HCCL_CONNECT_TIMEOUT
  [[nodiscard]] shm::Algorithm of(shm::Op op) const noexcept {
    return algorithm[static_cast<size_t>(op)];
  }
};

/// NPU_COLL_ALGO: "ring", "direct" or "auto" for all operations, or a list of pairs as in
/// "all-reduce=ring,broadcast=direct"; a later entry wins. NPU_COLL_TIMEOUT: "60s", "500ms", "0" =
/// never. Both win over HCCL_ALGO and HCCL_EXEC_TIMEOUT. `get` as std::getenv. Errors:
/// invalid_argument, exit 78, naming variable, value and what is accepted.
[[nodiscard]] Result<CollectiveEnv> collective_environment(
    const std::function<const char*(const char*)>& get);

/// "auto", "ring", "direct".
[[nodiscard]] std::optional<shm::Algorithm> parse_algorithm(std::string_view name) noexcept;
/// "all-reduce", ...; the operations that move data.
[[nodiscard]] std::optional<shm::Op> parse_op(std::string_view name) noexcept;

}  // namespace npu::client
