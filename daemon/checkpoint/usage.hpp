// How much of the disk one user's checkpoints take.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "daemon/checkpoint/file_ops.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

/// Bytes in all files below `<root>/<uid>`, what dead writers left included. What disappears on the
/// way does not count. Cost: one open and one fstat a file.
[[nodiscard]] Result<uint64_t> bytes_of_user(FileOps& ops, int root, uid_t uid);

}  // namespace npu::daemon
