// Names from untrusted files and clients, made fit for messages and logs.
#pragma once

#include <string>
#include <string_view>

namespace npu {

/// `text` with everything but printable ASCII as \xNN, cut to `limit` characters plus "...".
[[nodiscard]] std::string printable(std::string_view text, size_t limit = 120);

}  // namespace npu
