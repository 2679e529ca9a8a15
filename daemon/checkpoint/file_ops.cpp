#include "daemon/checkpoint/file_ops.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "shm/base/failpoint.hpp"

namespace npu::daemon {

int FileOps::open(int dir, const char* name, int flags, mode_t mode) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, dir, name, &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
  // Kernels before 5.6, and container filters that answer EPERM to calls they do not know. For a
  // name of one component, which is all that ever comes here, O_NOFOLLOW gives the same guarantee.
  return ::openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int FileOps::mkdir(int dir, const char* name, mode_t mode) { return ::mkdirat(dir, name, mode); }

namespace {

/// True, with errno set, when a test wants the call to fail.
bool injected(int error) noexcept {
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace

int FileOps::fallocate(int fd, uint64_t size_bytes) {
  if (injected(NPU_FAILPOINT_ERRNO("ckpt.fallocate"))) return -1;
  return ::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes));
}

ssize_t FileOps::write(int fd, std::span<const std::byte> bytes) {
  if (injected(NPU_FAILPOINT_ERRNO("ckpt.write"))) return -1;
  return ::write(fd, bytes.data(), bytes.size());
}

ssize_t FileOps::pread(int fd, std::span<std::byte> bytes, uint64_t offset) {
  return ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}

int FileOps::fstat(int fd, struct stat* out) { return ::fstat(fd, out); }

int FileOps::fsync(int fd) {
  if (injected(NPU_FAILPOINT_ERRNO("ckpt.fsync"))) return -1;
  return ::fsync(fd);
}

int FileOps::rename(int dir, const char* from, const char* to, unsigned flags) {
  if (injected(NPU_FAILPOINT_ERRNO("ckpt.rename"))) return -1;
  return ::renameat2(dir, from, dir, to, flags);
}

int FileOps::unlink(int dir, const char* name, bool directory) {
  return ::unlinkat(dir, name, directory ? AT_REMOVEDIR : 0);
}

int FileOps::try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }

int FileOps::read_dir(int fd, std::vector<std::string>* names) {
  // A descriptor of its own: fdopendir takes it over, and the offset of `fd` stays where it is.
  const int own = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return -1;
  DIR* dir = ::fdopendir(own);
  if (dir == nullptr) {
    ::close(own);
    return -1;
  }
  names->clear();
  errno = 0;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
  const int error = errno;
  ::closedir(dir);
  std::ranges::sort(*names);
  errno = error;
  return error == 0 ? 0 : -1;
}

int64_t FileOps::unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

uint64_t FileOps::nonce() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    // Only uniqueness matters, and mkdir fails on a name that exists.
    value = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return value;
}

FileOps& FileOps::system() {
  static FileOps ops;
  return ops;
}

}  // namespace npu::daemon
