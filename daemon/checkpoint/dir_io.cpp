#include "daemon/checkpoint/dir_io.hpp"

#include <fcntl.h>

#include <cerrno>

#include "shm/format/printable.hpp"

namespace npu::daemon {

Result<UniqueFd> open_file(FileOps& ops, int dir, const std::string& name, int flags, mode_t mode,
                           const std::string& what) {
  for (;;) {
    const int fd = ops.open(dir, name.c_str(), flags, mode);
    if (fd >= 0) return UniqueFd(fd);
    if (errno != EINTR) return fail_errno("open " + what);
  }
}

Result<UniqueFd> open_dir(FileOps& ops, int dir, const std::string& name, const std::string& what) {
  return open_file(ops, dir, name, O_RDONLY | O_DIRECTORY, 0, what);
}

Result<UniqueFd> ensure_dir(FileOps& ops, int dir, const std::string& name,
                            const std::string& what) {
  if (ops.mkdir(dir, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return fail_errno("create " + what);
  }
  // Also for one that existed: whoever created it may have died before this point.
  NPU_TRY_VOID(sync(ops, dir, "the directory above " + what));
  return open_dir(ops, dir, name, what);
}

Result<std::vector<std::string>> list_names(FileOps& ops, int dir, const std::string& what) {
  std::vector<std::string> names;
  if (ops.read_dir(dir, &names) != 0) return fail_errno("list " + what);
  return names;
}

Result<uint64_t> regular_size(FileOps& ops, int fd, const std::string& what) {
  struct stat info = {};
  if (ops.fstat(fd, &info) != 0) return fail_errno("stat " + what);
  if (!S_ISREG(info.st_mode)) return fail(Code::kDataLoss, "{} is not a regular file", what);
  return static_cast<uint64_t>(info.st_size);
}

Result<void> write_bytes(FileOps& ops, int fd, std::span<const std::byte> bytes,
                         const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ops.write(fd, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write " + what);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> read_bytes(FileOps& ops, int fd, std::span<std::byte> bytes, uint64_t offset,
                        const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ops.pread(fd, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + what);
    if (n == 0)
      return fail(Code::kDataLoss, "read {}: the file ends {} bytes early", what, bytes.size());
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> sync(FileOps& ops, int fd, const std::string& what) {
  if (ops.fsync(fd) != 0) return fail_errno("flush " + what + " to disk");
  return {};
}

Result<void> rename_entry(FileOps& ops, int dir, const std::string& from, const std::string& to,
                          unsigned flags) {
  if (ops.rename(dir, from.c_str(), to.c_str(), flags) != 0) {
    return fail_errno(fmt::format("rename {} to {}", from, to));
  }
  return {};
}

Result<void> remove_entry(FileOps& ops, int dir, const std::string& name) {
  const std::string what = printable(name);
  auto inner = open_dir(ops, dir, name, what);
  if (!inner) {
    // A plain file, a symbolic link, or gone.
    if (ops.unlink(dir, name.c_str(), false) == 0 || errno == ENOENT) return {};
    return fail_errno("remove " + what);
  }
  NPU_TRY(const auto names, list_names(ops, inner->get(), what));
  for (const auto& file : names) {
    if (ops.unlink(inner->get(), file.c_str(), false) != 0) {
      return fail_errno(fmt::format("remove {}/{}", what, printable(file)));
    }
  }
  if (ops.unlink(dir, name.c_str(), true) != 0) return fail_errno("remove " + what);
  return {};
}

}  // namespace npu::daemon
