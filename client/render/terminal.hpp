// What may be done with a descriptor as far as looks go: a live line, colour, how many columns.
#pragma once

namespace npu::client {

struct TerminalTraits {
  bool live = false;    // a line may be overwritten
  bool colour = false;  // SGR sequences are welcome
};

/// A terminal that is not "dumb" takes a live line; it takes colour unless NO_COLOR is set
/// to anything but the empty string (no-color.org). Reads TERM and NO_COLOR.
[[nodiscard]] TerminalTraits terminal_traits(int fd);

/// Columns of the terminal at `fd` now; 80 where it is none or does not say.
[[nodiscard]] int terminal_columns(int fd) noexcept;

}  // namespace npu::client
