// A small file that is replaced as a whole, so that a reader never sees half of it.
#pragma once

#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu::client {

/// Writes `text` to a temporary file beside `path` and renames it. Not flushed to the disk: it is
/// written again soon. Errors: as open, write and rename say; the temporary file is then gone.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace npu::client
