// Rendering of diagnostics: position, message, source line, caret. Long lines are shown as a window
// around the caret, so that a hostile file cannot flood a terminal.
#include "config/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace npu::config {
namespace {

constexpr size_t kMaxPrinted = 50;
constexpr size_t kMaxSourceWidth = 120;

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\t') {
      c = ' ';
    } else if (byte < 0x20 || byte == 0x7f) {
      c = '?';
    }
  }
  return out;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rows: insert, delete, replace and swap of neighbours cost
  // one.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr size_t kKeep = 60;
  return fmt::format("'{}{}'", printable(text.substr(0, kKeep)), text.size() > kKeep ? "..." : "");
}

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kLongestWord = 40;
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(lower, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

Diagnostics::Diagnostics(std::string file_name, std::string_view text,
                         std::span<const std::string> overrides)
    : file_name_(std::move(file_name)),
      lines_(split_lines(text)),
      overrides_(overrides.begin(), overrides.end()) {}

void Diagnostics::add(Place place, std::string message, std::string hint) {
  found_.push_back(Finding{place, std::move(message), std::move(hint)});
}

std::string Diagnostics::place_text(Place place) const {
  if (place.source > 0) {
    const std::string& text = overrides_[static_cast<size_t>(place.source) - 1];
    constexpr size_t kKeep = 120;
    return "--set " + printable(text.substr(0, kKeep)) + (text.size() > kKeep ? "..." : "");
  }
  if (place.line <= 0) return file_name_;
  return fmt::format("{}:{}:{}", file_name_, place.line, place.column);
}

void Diagnostics::append_source(std::string& out, const Finding& finding) const {
  const Place& place = finding.place;
  const auto index = static_cast<size_t>(place.line) - 1;
  if (place.source > 0 || place.line <= 0 || index >= lines_.size()) {
    if (!finding.hint.empty()) out += "      " + finding.hint + "\n";
    return;
  }
  const std::string line = printable(lines_[index]);
  const size_t column = std::min(static_cast<size_t>(std::max(place.column, 1)) - 1, line.size());
  const size_t start = column > kMaxSourceWidth / 2 && line.size() > kMaxSourceWidth
                           ? column - kMaxSourceWidth / 2
                           : 0;
  const std::string shown = line.substr(start, kMaxSourceWidth);
  const size_t caret = column - start;
  const size_t room = shown.size() > caret ? shown.size() - caret : 1;
  const size_t width = std::clamp<size_t>(static_cast<size_t>(std::max(place.length, 1)), 1, room);
  out += fmt::format("{:>3} | {}\n    | {:>{}}^{}{}{}\n", place.line, shown, "", caret,
                     std::string(width - 1, '~'), finding.hint.empty() ? "" : " ", finding.hint);
}

std::string Diagnostics::render(std::string_view tail) const {
  std::vector<Finding> sorted = found_;
  std::ranges::stable_sort(sorted, [](const Finding& a, const Finding& b) {
    return std::tuple(a.place.source, a.place.line, a.place.column) <
           std::tuple(b.place.source, b.place.line, b.place.column);
  });
  std::string out;
  for (size_t i = 0; i < std::min(sorted.size(), kMaxPrinted); ++i) {
    out += fmt::format("{}: error: {}\n", place_text(sorted[i].place), sorted[i].message);
    append_source(out, sorted[i]);
  }
  if (sorted.size() > kMaxPrinted) {
    out += fmt::format("... and {} more\n", sorted.size() - kMaxPrinted);
  }
  out += fmt::format("{} error{} in {}; nothing was started{}", sorted.size(),
                     sorted.size() == 1 ? "" : "s", file_name_, tail);
  return out;
}

}  // namespace npu::config
