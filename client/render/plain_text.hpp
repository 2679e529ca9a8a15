// Text of other programs made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace npu::client {

/// `text` with control characters (C0 but tabs, DEL, C1, also as UTF-8) and bytes that are no UTF-8
/// as \xNN: nothing in it moves the cursor, changes a colour or the title.
[[nodiscard]] std::string plain_text(std::string_view text);

}  // namespace npu::client
