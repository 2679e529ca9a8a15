// A whole terminal that is drawn again and again, on the alternate screen: which bytes take it,
// fill it and give it back. Writes nothing itself.
#pragma once

#include <string>
#include <string_view>

#include "client/render/terminal.hpp"

namespace npu::client {

/// Takes the alternate screen and hides the cursor; the other way round. What was on the screen
/// before is there again afterwards.
inline constexpr std::string_view kFullScreenEnter = "\x1b[?1049h\x1b[?25l";
inline constexpr std::string_view kFullScreenLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// `text` from the upper left corner on, over what is there, so that nothing is blank in between.
/// Lines are cut to the width; when there are more than rows, the last row says how many are not
/// shown. SGR sequences in `text` take no column.
[[nodiscard]] std::string full_screen_frame(std::string_view text, TerminalSize size);

}  // namespace npu::client
