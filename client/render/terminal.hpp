// What may be done with a descriptor as far as looks go: a live line, colour, how many columns.
#pragma once

namespace npu::client {

struct TerminalTraits {
  bool live = false;    // a line may be overwritten
  bool colour = false;  // SGR sequences are welcome
};

/// A terminal that is not "dumb" takes a live line; it takes colour unless NO_COLOR is set
/// to anything but the empty string (no-color.org). NPU_COLOR=always or never, which is what
/// --color sets, wins over both. Reads TERM, NO_COLOR and NPU_COLOR.
[[nodiscard]] TerminalTraits terminal_traits(int fd);

struct TerminalSize {
  int columns = 80, rows = 24;
};

/// Of the terminal at `fd` now; 80 x 24 where it is none or does not say.
[[nodiscard]] TerminalSize terminal_size(int fd) noexcept;

/// False while another process group has the terminal at `fd`, as with `npu launch &`.
[[nodiscard]] bool in_foreground(int fd) noexcept;

}  // namespace npu::client
