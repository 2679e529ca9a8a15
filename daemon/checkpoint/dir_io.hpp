// Results instead of errno for the calls of FileOps, and the small compositions that the store
// needs. `what` in every function names the object in messages ("model.safetensors of run 'a' step
// 3").
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/checkpoint/file_ops.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::daemon {

[[nodiscard]] Result<UniqueFd> open_file(FileOps& ops, int dir, const std::string& name, int flags,
                                         mode_t mode, const std::string& what);
[[nodiscard]] Result<UniqueFd> open_dir(FileOps& ops, int dir, const std::string& name,
                                        const std::string& what);
/// Opens a directory below `dir`, creating it 0700 where it is missing. The entry in `dir` is
/// durable afterwards.
[[nodiscard]] Result<UniqueFd> ensure_dir(FileOps& ops, int dir, const std::string& name,
                                          const std::string& what);

[[nodiscard]] Result<std::vector<std::string>> list_names(FileOps& ops, int dir,
                                                          const std::string& what);
/// Size of a regular file. Errors: data_loss for anything else.
[[nodiscard]] Result<uint64_t> regular_size(FileOps& ops, int fd, const std::string& what);

[[nodiscard]] Result<void> write_bytes(FileOps& ops, int fd, std::span<const std::byte> bytes,
                                       const std::string& what);
/// Fills `bytes`. Errors: data_loss when the file ends early.
[[nodiscard]] Result<void> read_bytes(FileOps& ops, int fd, std::span<std::byte> bytes,
                                      uint64_t offset, const std::string& what);
/// Never retried: after a failure the kernel may have dropped the dirty pages and a second call
/// would report success.
[[nodiscard]] Result<void> sync(FileOps& ops, int fd, const std::string& what);

[[nodiscard]] Result<void> rename_entry(FileOps& ops, int dir, const std::string& from,
                                        const std::string& to, unsigned flags);

/// Removes a file, or a directory that holds only files; one that is gone already counts as
/// removed.
[[nodiscard]] Result<void> remove_entry(FileOps& ops, int dir, const std::string& name);

}  // namespace npu::daemon
