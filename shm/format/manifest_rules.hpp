// Rules that the writer and the reader of a manifest share; private to this folder.
#pragma once

#include <string>
#include <string_view>

#include "shm/format/manifest.hpp"

namespace npu {

inline constexpr size_t kMaxManifestFiles = 16;
inline constexpr uint64_t kMaxManifestFileBytes = 1ULL << 56;  // 16 of them still sum up in 64 bits

/// The last two lines of a manifest whose text so far is `body`: the digest of all bytes before
/// them.
[[nodiscard]] std::string manifest_trailer(std::string_view body);

/// Values and references; errors carry `code`.
[[nodiscard]] Result<void> check_manifest(const Manifest& manifest, Code code,
                                          std::string_view where);

}  // namespace npu
