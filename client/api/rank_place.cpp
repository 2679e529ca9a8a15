#include "client/api/rank_place.hpp"

#include <array>
#include <charconv>
#include <string>

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

}  // namespace npu::client
