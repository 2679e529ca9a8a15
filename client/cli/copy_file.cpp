#include "client/cli/copy_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "shm/base/fd.hpp"

namespace npu::cli {
namespace {

// The temporary file; its name is gone when this is, unless it was given its final name.
class TemporaryFile {
 public:
  static Result<TemporaryFile> beside(const std::string& path) {
    std::string name = path + ".XXXXXX";
    UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd.valid()) {
      Error error = errno_error(errno, fmt::format("create a file beside '{}'", path));
      if (error.exit == Exit::kNoInput)
        error.exit = Exit::kCannotWrite;  // the directory is not input
      return tl::make_unexpected(std::move(error));
    }
    return TemporaryFile(std::move(fd), std::move(name));
  }
  TemporaryFile(TemporaryFile&&) = default;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (fd_.valid()) ::unlink(name_.c_str());
  }

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  Result<void> become(const std::string& path) {
    // mkostemp made it 0600; an exported file is as readable as any other new file of this user.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd(), 0666 & ~mask) != 0 || ::fsync(fd()) != 0)
      return fail_errno("write '" + path + "'");
    if (::rename(name_.c_str(), path.c_str()) != 0) return fail_errno("rename to '" + path + "'");
    fd_.reset();
    return {};
  }

 private:
  TemporaryFile(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  UniqueFd fd_;
  std::string name_;
};

Result<void> reserve(int fd, uint64_t bytes, const std::string& path) {
  const int err = bytes > 0 ? ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) : 0;
  if (err == 0 || err == EOPNOTSUPP || err == EINVAL)
    return {};  // a file system without it says no later
  return fail_errno(err, fmt::format("reserve {} bytes for '{}'", bytes, path));
}

Result<void> copy_by_reading(int from, int to, uint64_t at, uint64_t bytes,
                             const std::string& path) {
  std::array<std::byte, 1 << 16> buffer;
  if (::lseek(to, static_cast<off_t>(at), SEEK_SET) < 0)
    return fail_errno("seek in '" + path + "'");
  for (uint64_t end = at + bytes; at < end;) {
    const auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), end - at));
    NPU_TRY_VOID(pread_all(from, piece, at, "the checkpoint"));
    NPU_TRY_VOID(write_all(to, piece, "'" + path + "'"));
    at += piece.size();
  }
  return {};
}

// In the kernel where it can (also sharing blocks), else through a buffer.
Result<void> copy_bytes(int from, int to, uint64_t bytes, const std::string& path) {
  off_t in = 0, out = 0;
  while (static_cast<uint64_t>(in) < bytes) {
    const ssize_t n = ::copy_file_range(from, &in, to, &out, bytes - static_cast<uint64_t>(in), 0);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EPERM) {
      return fail_errno("write '" + path + "'");
    }
    return copy_by_reading(from, to, static_cast<uint64_t>(in), bytes - static_cast<uint64_t>(in),
                           path);
  }
  return {};
}

}  // namespace

Result<uint64_t> copy_to_file(int from, const std::string& path) {
  struct stat st {};
  if (::fstat(from, &st) != 0) return fail_errno("stat the checkpoint");
  const auto bytes = static_cast<uint64_t>(st.st_size);
  if (struct stat at{}; ::stat(path.c_str(), &at) == 0 && S_ISDIR(at.st_mode)) {
    return fail_exit(Code::kInvalidArgument, Exit::kCannotWrite,
                     "write '{}': it is a directory; name a file", path);
  }
  NPU_TRY(TemporaryFile file, TemporaryFile::beside(path));
  NPU_TRY_VOID(reserve(file.fd(), bytes, path));
  NPU_TRY_VOID(copy_bytes(from, file.fd(), bytes, path));
  NPU_TRY_VOID(file.become(path));
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd dir(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid() || ::fsync(dir.get()) != 0)
    return fail_errno("flush the directory of '" + path + "'");
  return bytes;
}

}  // namespace npu::cli
