#include "client/record/launcher_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace npu::client {
namespace {

std::string path_in(const std::string& folder) { return folder + "/launcher.lock"; }

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<LauncherLock> LauncherLock::take(const std::string& folder) {
  const std::string path = path_in(folder);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.valid()) return fail_errno(fmt::format("open '{}'", path));
  struct flock lock = whole_file(F_WRLCK);
  if (::fcntl(fd.get(), F_SETLK, &lock) == 0) return LauncherLock(std::move(fd));
  if (errno != EACCES && errno != EAGAIN) return fail_errno(fmt::format("lock '{}'", path));
  struct flock other = whole_file(F_WRLCK);
  const bool known = ::fcntl(fd.get(), F_GETLK, &other) == 0 && other.l_type != F_UNLCK;
  return fail_exit(Code::kUnavailable, Exit::kBusy,
                   "lock '{}': another launch of this run is going on (pid {})", path,
                   known ? other.l_pid : 0);
}

Result<std::optional<pid_t>> launcher_of(const std::string& folder) {
  const std::string path = path_in(folder);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return fail_errno(fmt::format("open '{}'", path));
  }
  struct flock lock = whole_file(F_WRLCK);
  if (::fcntl(fd.get(), F_GETLK, &lock) != 0) return fail_errno(fmt::format("look at '{}'", path));
  if (lock.l_type == F_UNLCK) return std::nullopt;
  // What the kernel says of a lock that was taken through a network, or in another pid namespace.
  if (lock.l_pid <= 0) {
    return fail(Code::kFailedPrecondition,
                "'{}' is held by a launcher on another host or in another container; ask there",
                path);
  }
  return lock.l_pid;
}

}  // namespace npu::client
