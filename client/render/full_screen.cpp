#include "client/render/full_screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace npu::client {
namespace {

constexpr std::string_view kNormal = "\x1b[0m";

/// The first `columns` columns of a line; its SGR sequences are kept and count nothing.
std::string cut(std::string_view line, size_t columns) {
  std::string out;
  size_t used = 0;
  bool coloured = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      const size_t end = std::min(line.find('m', i), line.size() - 1);
      out += line.substr(i, end - i + 1);
      coloured = true;
      i = end;
      continue;
    }
    const bool starts = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;  // of a character
    if (starts && used == columns) break;
    used += starts ? 1 : 0;
    out += line[i];
  }
  if (coloured) out += kNormal;
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string full_screen_frame(std::string_view text, TerminalSize size) {
  const auto columns = static_cast<size_t>(std::max(size.columns, 1));
  const auto rows = static_cast<size_t>(std::max(size.rows, 1));
  const std::vector<std::string_view> lines = lines_of(text);
  const bool all = lines.size() <= rows;
  const size_t shown = all ? lines.size() : rows - 1;
  std::string bytes = "\x1b[H";
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) bytes += "\r\n";
    bytes += cut(lines[i], columns) + "\x1b[K";
  }
  if (!all) {
    if (shown > 0) bytes += "\r\n";
    bytes += cut(fmt::format("... {} more lines", lines.size() - shown), columns) + "\x1b[K";
  }
  return bytes + "\x1b[J";
}

}  // namespace npu::client
