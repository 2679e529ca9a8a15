// The system calls of the checkpoint store behind one interface, so that tests can fail or die at
// each of them. Methods behave as the call they are named after: -1 and errno on failure, EINTR not
// retried.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace npu::daemon {

/// Every name is one path component, relative to a directory descriptor. Thread: as the kernel
/// allows.
class FileOps {
 public:
  virtual ~FileOps() = default;

  /// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS and O_CLOEXEC.
  virtual int open(int dir, const char* name, int flags, mode_t mode);
  virtual int mkdir(int dir, const char* name, mode_t mode);
  virtual int fallocate(int fd, uint64_t size_bytes);
  virtual ssize_t write(int fd, std::span<const std::byte> bytes);
  virtual ssize_t pread(int fd, std::span<std::byte> bytes, uint64_t offset);
  virtual int fstat(int fd, struct stat* out);
  virtual int fsync(int fd);
  /// `flags` of renameat2; both names are in `dir`.
  virtual int rename(int dir, const char* from, const char* to, unsigned flags);
  virtual int unlink(int dir, const char* name, bool directory);
  /// LOCK_EX | LOCK_NB; the lock ends with the descriptor.
  virtual int try_lock(int fd);
  /// Names in a directory without "." and "..", sorted by bytes.
  virtual int read_dir(int fd, std::vector<std::string>* names);

  /// Not system calls that fail, but what makes a run of the store differ from the next.
  virtual int64_t unix_ms();
  virtual uint64_t nonce();

  /// The real calls.
  static FileOps& system();
};

}  // namespace npu::daemon
