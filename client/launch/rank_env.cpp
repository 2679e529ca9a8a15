#include "client/launch/rank_env.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace npu::client {
namespace {

constexpr std::array kTorch = {"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr std::array kAscend = {"RANK_ID", "RANK_SIZE", "DEVICE_ID"};
constexpr int kMaxWorld = 1024;

Result<int> number(const char* name, std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return fail(Code::kInvalidArgument,
                "environment: {}='{}' where a number from {} to {} was expected", name, text, low,
                high);
  }
  return value;
}

// The three values of a family, nothing when none is set, an error when some are.
Result<std::optional<std::array<int, 3>>> family(const std::array<const char*, 3>& names,
                                                 const GetEnv& get) {
  std::array<const char*, 3> texts{};
  std::string missing, present;
  for (size_t i = 0; i < names.size(); ++i) {
    texts[i] = get(names[i]);
    std::string& list = texts[i] == nullptr ? missing : present;
    list += (list.empty() ? "" : ", ") + std::string(names[i]);
  }
  if (present.empty()) return std::nullopt;
  if (!missing.empty()) {
    return fail(Code::kInvalidArgument,
                "environment: {} is set but {} is not; set all of {}, {}, {} or none", present,
                missing, names[0], names[1], names[2]);
  }
  NPU_TRY(const int world, number(names[1], texts[1], 1, kMaxWorld));
  NPU_TRY(const int rank, number(names[0], texts[0], 0, world - 1));
  NPU_TRY(const int third, number(names[2], texts[2], 0, kMaxWorld - 1));
  return std::array<int, 3>{rank, world, third};
}

}  // namespace

Result<std::optional<RankPlace>> rank_from_environment(const GetEnv& get) {
  NPU_TRY(const auto torch, family(kTorch, get));
  NPU_TRY(const auto ascend, family(kAscend, get));
  if (!torch && !ascend) return std::nullopt;
  if (torch && ascend && ((*torch)[0] != (*ascend)[0] || (*torch)[1] != (*ascend)[1])) {
    return fail(
        Code::kInvalidArgument,
        "environment: RANK={} of WORLD_SIZE={} but RANK_ID={} of RANK_SIZE={}; unset one family",
        (*torch)[0], (*torch)[1], (*ascend)[0], (*ascend)[1]);
  }
  const auto& [rank, world, third] = torch ? *torch : *ascend;
  RankPlace place{.rank = rank, .world = world, .local_rank = torch ? third : rank};
  if (ascend) place.device = (*ascend)[2];
  if (place.local_rank != place.rank) {
    return fail(Code::kInvalidArgument,
                "environment: LOCAL_RANK={} but RANK={}; all ranks are on one host",
                place.local_rank, place.rank);
  }
  return place;
}

Result<std::string> random_run_key() {
  std::array<unsigned char, 16> bytes{};
  // Up to 256 bytes arrive whole or not at all.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail_errno("draw a run key: getrandom");
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::vector<std::string> rank_environment(const RankEnvironment& rank, const char* const* base) {
  std::vector<std::string> own = {fmt::format("RANK={}", rank.rank),
                                  fmt::format("LOCAL_RANK={}", rank.rank),
                                  fmt::format("WORLD_SIZE={}", rank.world),
                                  "NPUD_SOCKET=" + rank.socket, "NPU_RUN_KEY=" + rank.run_key};
  std::vector<std::string> out;
  bool has_policy = false, has_threads = false;
  for (; *base != nullptr; ++base) {
    const std::string_view entry(*base);
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto same = [name](const std::string& s) { return s.substr(0, s.find('=')) == name; };
    if (std::ranges::any_of(own, same) || name == "NPU_EVENT_FD" ||
        std::ranges::find(kAscend, name) != kAscend.end()) {
      continue;
    }
    has_policy = has_policy || name == "OMP_WAIT_POLICY";
    has_threads = has_threads || name == "OMP_NUM_THREADS";
    out.emplace_back(entry);
  }
  if (!has_policy) own.emplace_back("OMP_WAIT_POLICY=passive");
  if (!has_threads) own.push_back(fmt::format("OMP_NUM_THREADS={}", rank.threads));
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

}  // namespace npu::client
