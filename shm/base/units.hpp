// Sizes and durations as people write them: "4MiB", "60s".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "shm/base/error.hpp"

namespace npu {

/// "4MiB", "64K", "1.5GiB", "512": K/M/G/T and KiB/MiB/GiB/TiB are powers of 1024, kB/MB/GB powers
/// of 1000. Errors: invalid_argument naming the text and the accepted forms.
[[nodiscard]] Result<uint64_t> parse_bytes(std::string_view text);

/// "60s", "500ms", "2m", "1h", plain number = seconds. 0 means never.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// 12.3 MiB, 640 B.
[[nodiscard]] std::string format_bytes(uint64_t bytes);

}  // namespace npu
