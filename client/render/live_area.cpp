#include "client/render/live_area.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace npu::client {

std::string LiveArea::to_the_top(int columns) const {
  size_t rows = 0;
  const auto width = static_cast<size_t>(std::max(columns, 1));
  for (const size_t used : widths_) rows += std::max<size_t>((used + width - 1) / width, 1);
  return rows > 1 ? fmt::format("\r\x1b[{}A", rows - 1) : "\r";
}

std::string LiveArea::erase(int columns) {
  if (widths_.empty()) return {};
  std::string bytes = to_the_top(columns) + "\x1b[J";
  widths_.clear();
  return bytes;
}

std::string LiveArea::draw(const std::vector<std::string>& lines, int columns) {
  if (lines.empty()) return erase(columns);
  const size_t limit = static_cast<size_t>(std::max(columns, 1));
  const bool wrapped = std::ranges::any_of(widths_, [&](size_t used) { return used > limit; });
  // Over what is there, line by line, so that nothing is blank in between.
  std::string bytes = wrapped ? erase(columns) : (widths_.empty() ? "\r" : to_the_top(columns));
  widths_.clear();
  for (const std::string& line : lines) {
    if (!widths_.empty()) bytes += "\r\n";
    const bool first = widths_.empty();
    bytes += first && colour_ ? "\x1b[36m" + line + "\x1b[0m\x1b[K" : line + "\x1b[K";
    widths_.push_back(line.size());
  }
  return bytes + "\x1b[J";
}

}  // namespace npu::client
