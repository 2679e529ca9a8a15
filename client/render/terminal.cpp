#include "client/render/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace npu::client {

TerminalTraits terminal_traits(int fd) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  const bool live = ::isatty(fd) == 1 && !dumb;
  const char* choice = std::getenv("NPU_COLOR");
  const std::string_view colour(choice != nullptr ? choice : "");
  const bool welcome = live && (no_color == nullptr || *no_color == '\0');
  return {.live = live, .colour = colour == "always" || (welcome && colour != "never")};
}

TerminalSize terminal_size(int fd) noexcept {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

bool in_foreground(int fd) noexcept {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();
}

}  // namespace npu::client
