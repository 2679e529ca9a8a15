#include "client/launch/rank_env.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace npu::client {
namespace {

constexpr std::array kAscend = {"RANK_ID", "RANK_SIZE", "DEVICE_ID"};
// What the launcher has resolved into plain device numbers.
constexpr std::array<std::string_view, 3> kResolved = {
    "RANK_TABLE_FILE", "ASCEND_RT_VISIBLE_DEVICES", "NPU_VISIBLE_DEVICES"};
}  // namespace

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
        name == "NPU_PICTURES_FD" ||
        std::ranges::find(kAscend, name) != kAscend.end() ||
        std::ranges::find(kResolved, name) != kResolved.end()) {
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
