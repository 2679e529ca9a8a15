#include "daemon/checkpoint/usage.hpp"

#include <fcntl.h>

#include <string>

#include "daemon/checkpoint/dir_io.hpp"

namespace npu::daemon {
namespace {

constexpr int kLevels = 3;  // run, step, file

uint64_t bytes_below(FileOps& ops, int dir, int levels) {
  const auto names = list_names(ops, dir, "a directory of the store");
  if (!names || levels == 0) return 0;
  uint64_t total = 0;
  for (const std::string& name : *names) {
    const auto entry = open_file(ops, dir, name, O_RDONLY | O_NONBLOCK, 0, name);
    struct stat info = {};
    if (!entry || ops.fstat(entry->get(), &info) != 0) continue;
    if (S_ISREG(info.st_mode)) total += static_cast<uint64_t>(info.st_size);
    if (S_ISDIR(info.st_mode)) total += bytes_below(ops, entry->get(), levels - 1);
  }
  return total;
}

}  // namespace

Result<uint64_t> bytes_of_user(FileOps& ops, int root, uid_t uid) {
  const std::string user = std::to_string(uid);
  const auto dir = open_dir(ops, root, user, "directory of uid " + user);
  if (!dir && dir.error().code == Code::kNotFound) return 0;
  if (!dir) return tl::make_unexpected(dir.error());
  return bytes_below(ops, dir->get(), kLevels);
}

}  // namespace npu::daemon
