// A whole file to a path, or nothing at all.
#pragma once

#include <cstdint>
#include <string>

#include "shm/base/error.hpp"

namespace npu::cli {

/// Copies everything behind descriptor `from` to `path`, replacing what is there: temporary file in
/// the same directory, space reserved first, fsync, rename, fsync of the directory. Returns the
/// bytes copied. Errors: not_found (no such directory), permission_denied, resource_exhausted (exit
/// 73, disk full); the temporary file is removed and `path` keeps what it held.
[[nodiscard]] Result<uint64_t> copy_to_file(int from, const std::string& path);

}  // namespace npu::cli
