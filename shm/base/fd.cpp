#include "shm/base/fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace npu {

void UniqueFd::reset(int fd) noexcept {
  // close(2) must not be retried on EINTR: Linux has released the number already.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<UniqueFd> duplicate_fd(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return fail_errno(fmt::format("duplicate descriptor {}", fd));
  return UniqueFd(copy);
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("write " + what);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> pread_all(int fd, std::span<std::byte> bytes, uint64_t offset,
                       const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("read " + what);
    }
    if (n == 0) {
      return fail(Code::kDataLoss, "read {}: the file ends at byte {}, {} more were expected", what,
                  offset, bytes.size());
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, uint64_t limit_bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("open '" + path + "'");
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat '" + path + "'");
  if (!S_ISREG(st.st_mode)) {
    return fail_exit(Code::kInvalidArgument, Exit::kNoInput, "read '{}': not a regular file", path);
  }
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size > limit_bytes) {
    return fail_exit(Code::kResourceExhausted, Exit::kBadData,
                     "read '{}': {} bytes, at most {} are accepted", path, size, limit_bytes);
  }
  std::string text(size, '\0');
  NPU_TRY_VOID(pread_all(fd.get(), std::as_writable_bytes(std::span(text)), 0, "'" + path + "'"));
  return text;
}

}  // namespace npu
