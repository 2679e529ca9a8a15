#include "daemon/control/authority.hpp"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "shm/format/printable.hpp"

namespace npu::daemon {

bool allowed(const Rights& who, Action action, int64_t owner) noexcept {
  switch (action) {
    case Action::kAttach:
      return who.uid == owner;
    case Action::kReadStatus:
    case Action::kEndRun:
      return who.uid == owner || who.admin;
    case Action::kAdminister:
      return who.admin;
  }
  return false;
}

bool is_admin(int64_t uid, std::span<const gid_t> groups,
              std::optional<gid_t> admin_group) noexcept {
  return uid == 0 || uid == static_cast<int64_t>(::geteuid()) ||
         (admin_group && std::ranges::find(groups, *admin_group) != groups.end());
}

Result<std::optional<gid_t>> find_group(const std::string& name) {
  if (name.empty()) return std::optional<gid_t>();
  std::vector<char> buffer(1 << 14);
  group entry{};
  group* found = nullptr;
  int result = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  while (result == ERANGE && buffer.size() < (1 << 24)) {  // a group may have many members
    buffer.resize(buffer.size() * 2);
    result = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  }
  if (found != nullptr) return std::optional<gid_t>(found->gr_gid);
  return fail_exit(Code::kNotFound, Exit::kBadConfig,
                   "admin_group: this host has no group '{}'; create it, or leave the key empty",
                   printable(name));
}

}  // namespace npu::daemon
