#include "client/api/collective_env.hpp"

#include <algorithm>
#include <string_view>

#include "client/api/hccl_env.hpp"
#include "shm/base/units.hpp"

namespace npu::client {
namespace {

/// "ring" or "all-reduce=ring".
bool apply_entry(std::string_view entry, CollectiveEnv& env) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) {
    const auto algorithm = parse_algorithm(entry);
    if (algorithm) env.algorithm.fill(*algorithm);
    return algorithm.has_value();
  }
  const auto op = parse_op(entry.substr(0, equals));
  const auto algorithm = parse_algorithm(entry.substr(equals + 1));
  if (!op || !algorithm) return false;
  env.algorithm[static_cast<size_t>(*op)] = *algorithm;
  return true;
}

Result<void> apply_algorithms(std::string_view value, CollectiveEnv& env) {
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    const auto entry = value.substr(begin, end - begin);
    if (!apply_entry(entry, env)) {
      return fail_exit(
          Code::kInvalidArgument, Exit::kBadConfig,
          "NPU_COLL_ALGO='{}': '{}' is not understood; write ring, direct or auto, or a "
          "list as all-reduce=ring,broadcast=direct",
          value, entry);
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace

std::optional<shm::Algorithm> parse_algorithm(std::string_view name) noexcept {
  if (name == "auto") return shm::Algorithm::kAuto;
  if (name == "ring") return shm::Algorithm::kRing;
  if (name == "direct") return shm::Algorithm::kDirect;
  return std::nullopt;
}

std::optional<shm::Op> parse_op(std::string_view name) noexcept {
  for (uint8_t i = 1; i < shm::kOpCount; ++i) {
    const auto op = static_cast<shm::Op>(i);
    const bool moves = !shm::op_moves_nothing(op) || op == shm::Op::kBarrier;
    if (moves && name == shm::op_name(op)) return op;
  }
  return std::nullopt;
}

Result<CollectiveEnv> collective_environment(const std::function<const char*(const char*)>& get) {
  CollectiveEnv env;
  NPU_TRY(const HcclEnv hccl, hccl_environment(get));
  for (size_t op = 0; op < env.algorithm.size(); ++op) {
    env.algorithm[op] = hccl.algorithm[op].value_or(shm::Algorithm::kAuto);
  }
  env.timeout = hccl.timeout;
  env.join_timeout = hccl.join_timeout;
  if (const char* value = get("NPU_COLL_ALGO"); value != nullptr && *value != '\0') {
    NPU_TRY_VOID(apply_algorithms(value, env));
  }
  if (const char* value = get("NPU_COLL_TIMEOUT"); value != nullptr && *value != '\0') {
    auto timeout = parse_duration(value);
    if (!timeout) {
      return fail_exit(Code::kInvalidArgument, Exit::kBadConfig,
                       "NPU_COLL_TIMEOUT: {}; write 60s, 500ms, or 0 for never",
                       timeout.error().message);
    }
    env.timeout = *timeout;
  }
  return env;
}

}  // namespace npu::client
