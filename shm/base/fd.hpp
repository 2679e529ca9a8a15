// Owning file descriptor and the few syscalls whose EINTR handling everybody needs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "shm/base/error.hpp"

namespace npu {

/// Closes its descriptor on destruction. Movable, not copyable; -1 means empty.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// A second descriptor for the same open file, close-on-exec.
[[nodiscard]] Result<UniqueFd> duplicate_fd(int fd);

/// Writes every byte, retrying on EINTR and short writes. Errors: as errno says, `what` names the
/// file.
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes,
                                     const std::string& what);

/// Fills `bytes` from `offset`. Errors: data_loss when the file ends early.
[[nodiscard]] Result<void> pread_all(int fd, std::span<std::byte> bytes, uint64_t offset,
                                     const std::string& what);

/// Whole file as a string, at most `limit_bytes`. Errors: not_found, resource_exhausted (too
/// large).
[[nodiscard]] Result<std::string> read_file(const std::string& path, uint64_t limit_bytes);

}  // namespace npu
