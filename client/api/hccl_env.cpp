#include "client/api/hccl_env.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace npu::client {
namespace {

using shm::Algorithm;
using shm::Op;
using std::chrono::seconds;

using Get = std::function<const char*(const char*)>;

constexpr int kExecStep = 68;  // seconds; HCCL's timer counts in these

std::string_view text_of(const Get& get, const char* name) {
  const char* value = get(name);
  return value != nullptr ? value : "";
}

template <typename... Args>
tl::unexpected<Error> refuse(fmt::format_string<Args...> text, Args&&... args) {
  return fail_exit(Code::kInvalidArgument, Exit::kBadConfig, "environment: {}",
                   fmt::format(text, std::forward<Args>(args)...));
}

/// Nothing when the variable is not set.
Result<std::optional<int>> number(const Get& get, const char* name, int low, int high,
                                  const char* expected) {
  const std::string_view text = text_of(get, name);
  if (text.empty()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return refuse("{}='{}' where {} was expected", name, text, expected);
  }
  return value;
}

/// What HCCL calls an algorithm, as one of ours; nothing for a name that it does not have.
std::optional<Algorithm> algorithm_named(std::string_view name) {
  constexpr std::pair<std::string_view, Algorithm> kNames[] = {
      {"NA", Algorithm::kAuto},         {"null", Algorithm::kAuto},
      {"ring", Algorithm::kRing},       {"doublering", Algorithm::kRing},
      {"fullmesh", Algorithm::kDirect}, {"pairwise", Algorithm::kDirect},
      {"H-D_R", Algorithm::kAuto},      {"NHR", Algorithm::kAuto},
      {"NHR_V1", Algorithm::kAuto},     {"NB", Algorithm::kAuto},
      {"AHC", Algorithm::kAuto},        {"pipeline", Algorithm::kAuto}};
  const auto* found =
      std::ranges::find(kNames, name, &std::pair<std::string_view, Algorithm>::first);
  if (found == std::end(kNames)) return std::nullopt;
  return found->second;
}

constexpr std::pair<std::string_view, Op> kOps[] = {{"allreduce", Op::kAllReduce},
                                                    {"allgather", Op::kAllGather},
                                                    {"reducescatter", Op::kReduceScatter},
                                                    {"broadcast", Op::kBroadcast},
                                                    {"reduce", Op::kReduce},
                                                    {"scatter", Op::kScatter},
                                                    {"alltoall", Op::kAllToAll},
                                                    {"send", Op::kSend},
                                                    {"receive", Op::kRecv}};

/// The pieces of `text` between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// "level0:NA;level1:ring".
std::optional<Algorithm> read_levels(std::string_view levels) {
  Algorithm chosen = Algorithm::kAuto;
  for (const std::string_view level : split(levels, ';')) {
    constexpr std::string_view kWord = "level";
    const bool shaped = level.size() > 7 && level.starts_with(kWord) && level[5] >= '0' &&
                        level[5] <= '3' && level[6] == ':';
    if (!shaped) return std::nullopt;
    const auto algorithm = algorithm_named(level.substr(7));
    if (!algorithm) return std::nullopt;
    if (chosen == Algorithm::kAuto) chosen = *algorithm;
  }
  return chosen;
}

bool apply_algorithm(std::string_view entry, HcclEnv& env) {
  const size_t equals = entry.find('=');
  const auto chosen =
      read_levels(equals == std::string_view::npos ? entry : entry.substr(equals + 1));
  if (!chosen) return false;
  const std::string_view op = equals == std::string_view::npos ? "others" : entry.substr(0, equals);
  if (op == "others") {
    for (auto& algorithm : env.algorithm) algorithm = algorithm.value_or(*chosen);
    return true;
  }
  const auto* found = std::ranges::find(kOps, op, &std::pair<std::string_view, Op>::first);
  if (found == std::end(kOps)) return false;
  env.algorithm[static_cast<size_t>(found->second)] = *chosen;
  return true;
}

Result<void> read_algorithms(const Get& get, HcclEnv& env) {
  const std::string_view text = text_of(get, "HCCL_ALGO");
  if (text.empty()) return {};
  auto entries = split(text, '/');
  // What is said of one operation goes before what is said of the others.
  std::stable_partition(entries.begin(), entries.end(), [](std::string_view entry) {
    return entry.find('=') != std::string_view::npos && !entry.starts_with("others=");
  });
  for (const std::string_view entry : entries) {
    if (apply_algorithm(entry, env)) continue;
    return refuse(
        "HCCL_ALGO='{}': '{}' is not understood; expected level0:NA;level1:ring, or "
        "allreduce=level0:ring/others=level0:NA, with NA, ring, doublering, fullmesh, pairwise, "
        "H-D_R, NHR, NB, AHC or pipeline",
        text, entry);
  }
  return {};
}

Result<void> read_timeouts(const Get& get, HcclEnv& env) {
  NPU_TRY(const auto connect,
          number(get, "HCCL_CONNECT_TIMEOUT", 120, 7200, "120 to 7200 seconds"));
  if (connect) env.join_timeout = seconds(*connect);
  NPU_TRY(const auto exec,
          number(get, "HCCL_EXEC_TIMEOUT", 0, 17340, "0 (never) or 1 to 17340 seconds"));
  if (!exec) return {};
  const int effective = *exec == 0 ? 0 : std::max(*exec / kExecStep * kExecStep, kExecStep);
  env.timeout = seconds(effective);
  if (effective != *exec) {
    env.remarks.push_back(fmt::format("HCCL_EXEC_TIMEOUT={} counts in steps of {} s: {} s", *exec,
                                      kExecStep, effective));
  }
  return {};
}

Result<void> read_what_has_no_effect(const Get& get, HcclEnv& env) {
  NPU_TRY(const auto megabytes, number(get, "HCCL_BUFFSIZE", 1, 1 << 30, "1 MB or more"));
  if (megabytes) {
    env.remarks.emplace_back("HCCL_BUFFSIZE has no effect: collectives work in place");
  }
  const std::string_view deterministic = text_of(get, "HCCL_DETERMINISTIC");
  if (deterministic.empty()) return {};
  for (const std::string_view word : {"false", "true", "strict"}) {
    if (deterministic != word) continue;
    env.remarks.push_back(fmt::format(
        "HCCL_DETERMINISTIC={} has no effect: results always have the same bits", word));
    return {};
  }
  return refuse("HCCL_DETERMINISTIC='{}' where false, true or strict was expected", deterministic);
}

}  // namespace

Result<HcclEnv> hccl_environment(const Get& get) {
  HcclEnv env;
  NPU_TRY_VOID(read_algorithms(get, env));
  NPU_TRY_VOID(read_timeouts(get, env));
  NPU_TRY_VOID(read_what_has_no_effect(get, env));
  return env;
}

}  // namespace npu::client
