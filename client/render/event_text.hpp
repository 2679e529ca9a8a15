// An event as a person reads it: which lines, and on which stream.
#pragma once

#include <optional>
#include <string>

#include "client/render/renderer.hpp"

namespace npu::client {

struct EventText {
  LogStream stream = LogStream::kStdout;
  std::string text;  // one or more lines without the last newline
};

/// Nothing for steps between two displayed ones, and for an error: whoever ends the job says it in
/// a sentence of its own.
[[nodiscard]] std::optional<EventText> event_text(const Event& event);

}  // namespace npu::client
