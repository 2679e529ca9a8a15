// Writes one file of a checkpoint through a private bounce buffer.
// What is hashed is what is written, even when the source changes while it is read.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/checkpoint/file_ops.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/manifest.hpp"

namespace npu::daemon {

inline constexpr size_t kBounceBytes = 1U << 20;

/// create, append..., finish. `bounce` (kBounceBytes) must outlive the object and serves one file
/// at a time.
class StagedFile {
 public:
  /// Creates the file (it must not exist) and reserves `size_bytes` on disk.
  /// Errors: resource_exhausted naming the size when the disk is full.
  [[nodiscard]] static Result<StagedFile> create(FileOps& ops, int dir, const std::string& name,
                                                 uint64_t size_bytes, std::span<std::byte> bounce,
                                                 const std::string& checkpoint);

  /// Copies `source` once, piece by piece, hashes the copy (also into `also`, if given) and writes
  /// it.
  [[nodiscard]] Result<void> append(std::span<const std::byte> source, Xxh3* also = nullptr);

  /// Writes what is left and fsyncs. All reserved bytes must have been appended (checked).
  [[nodiscard]] Result<ManifestFile> finish();

 private:
  StagedFile(FileOps& ops, UniqueFd fd, std::string name, uint64_t size_bytes,
             std::span<std::byte> bounce, const std::string& checkpoint)
      : ops_(&ops),
        fd_(std::move(fd)),
        name_(std::move(name)),
        what_(name_ + " of " + checkpoint),
        size_bytes_(size_bytes),
        bounce_(bounce) {}
  [[nodiscard]] Result<void> flush();

  FileOps* ops_;
  UniqueFd fd_;
  std::string name_;
  std::string what_;
  uint64_t size_bytes_;
  uint64_t appended_bytes_ = 0;
  std::span<std::byte> bounce_;
  size_t filled_ = 0;
  Xxh3 hash_{Xxh3::Width::k128};
};

}  // namespace npu::daemon
