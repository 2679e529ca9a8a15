#include "daemon/control/memory_budget.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "shm/base/units.hpp"

namespace npu::daemon {
namespace {

/// "key   123 kB" or "key 123": the number of the first line that begins with `key`.
std::optional<uint64_t> number_after(std::istream& file, std::string_view key) {
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;  // "max" is no number
  return std::nullopt;
}

std::optional<uint64_t> meminfo(const std::string& root, std::string_view key) {
  std::ifstream file(root + "/proc/meminfo");
  const auto kib = number_after(file, key);
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

std::optional<uint64_t> stat_of(const std::string& folder, std::string_view key) {
  std::ifstream file(folder + "/memory.stat");
  return number_after(file, key);
}

/// Names of the files of one version of control groups.
struct Version {
  const char* mount;
  const char* limit;
  const char* used;
  const char* cached[2];  // pages of files: given back when they are needed
};
constexpr Version kVersion2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Version kVersion1 = {"/sys/fs/cgroup/memory",
                               "memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               {"total_inactive_file", "total_active_file"}};

std::optional<MemoryRoom> room_of(const std::string& folder, const Version& v,
                                  const std::string& name) {
  const auto limit = number_in(folder + "/" + v.limit);
  const auto used = number_in(folder + "/" + v.used);
  if (!limit || !used) return std::nullopt;
  uint64_t cached = 0;
  for (const char* key : v.cached) cached += stat_of(folder, key).value_or(0);
  return MemoryRoom{*limit, *used > cached ? *used - cached : 0,
                    "control group '" + (name.empty() ? "/" : name) + "' has"};
}

/// The group's path in its hierarchy: "0::/path" (version 2) or "4:memory:/path".
struct GroupPath {
  std::string path;
  const Version* version;
};

std::vector<GroupPath> groups_of(const std::string& root) {
  std::vector<GroupPath> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    if (second + 1 >= line.size() || line[second + 1] != '/') continue;
    found.push_back({line.substr(second + 1), unified ? &kVersion2 : &kVersion1});
  }
  return found;
}

}  // namespace

MemoryRoom MemoryBudget::tightest() const {
  MemoryRoom tightest;
  const auto consider = [&](const std::optional<MemoryRoom>& room) {
    if (room && room->left_bytes() < tightest.left_bytes()) tightest = *room;
  };
  const auto total = meminfo(root_, "MemTotal:");
  const auto available = meminfo(root_, "MemAvailable:");
  if (total && available && *available <= *total) {
    consider(MemoryRoom{*total, *total - *available, "the host has"});
  }
  for (const GroupPath& group : groups_of(root_)) {
    // A limit of any group above holds, too.
    for (std::string path = group.path == "/" ? "" : group.path;;) {
      consider(room_of(root_ + group.version->mount + path, *group.version, path));
      if (path.empty()) break;
      path.erase(path.rfind('/'));
    }
  }
  return tightest;
}

Result<void> MemoryBudget::check(uint64_t wanted_bytes, uint64_t promised_bytes) const {
  const MemoryRoom room = tightest();
  const uint64_t left = room.left_bytes();
  const uint64_t taken = promised_bytes + kMemoryReserveBytes;
  if (taken <= left && wanted_bytes <= left - taken) return {};
  return fail(Code::kResourceExhausted,
              "{} of memory are wanted; {} {}, {} of them are used, {} are promised to others and {} "
              "are kept back; use a smaller batch or fewer ranks, or free memory",
              format_bytes(wanted_bytes), room.where, format_bytes(room.limit_bytes),
              format_bytes(room.used_bytes), format_bytes(promised_bytes),
              format_bytes(kMemoryReserveBytes));
}

}  // namespace npu::daemon
