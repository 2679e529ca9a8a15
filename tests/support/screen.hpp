// A terminal's screen as far as `npu launch` uses one: printed text, line ends, tabs, cursor up,
// erase to the end of line and screen, colours. Whatever else comes is kept in `unknown`.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace npu::test {

class Screen {
 public:
  Screen(int columns, int rows) : columns_(columns), rows_(rows), lines_(1) {}

  void feed(std::string_view bytes) {
    for (const char c : bytes) byte(c);
  }

  /// Everything that was ever shown and not erased, scrolled lines included; without trailing
  /// blanks and empty lines at the end.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> out = lines_;
    for (std::string& line : out) line.erase(line.find_last_not_of(' ') + 1);
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& line : lines()) all += line + '\n';
    return all;
  }
  [[nodiscard]] size_t row() const { return row_; }
  [[nodiscard]] size_t column() const { return column_; }
  [[nodiscard]] const std::string& unknown() const { return unknown_; }
  [[nodiscard]] size_t wraps() const { return wraps_; }

 private:
  void byte(char c) {
    if (!escape_.empty()) return sequence(c);
    switch (c) {
      case '\x1b':
        escape_ = c;
        return;
      case '\r':
        column_ = 0;
        return;
      case '\n':
        down();
        return;
      case '\t':
        column_ = std::min((column_ / 8 + 1) * 8, static_cast<size_t>(columns_ - 1));
        return;
      default:
        put(c);
    }
  }

  void put(char c) {
    if (column_ == static_cast<size_t>(columns_)) {
      ++wraps_;
      column_ = 0;
      down();
    }
    std::string& line = lines_[row_];
    if (line.size() <= column_) line.resize(column_ + 1, ' ');
    line[column_++] = c;
  }

  void down() {
    if (++row_ == lines_.size()) lines_.emplace_back();
  }

  void sequence(char c) {
    escape_ += c;
    if (escape_.size() == 2 && c == '[') return;
    if (c >= '0' && c <= '9') return;
    if (c == ';') return;
    const int n = escape_.size() > 3 ? std::stoi("0" + escape_.substr(2)) : 1;
    if (c == 'A') {
      // Not above the first row of the window: what has scrolled away stays as it is.
      const size_t top = lines_.size() > static_cast<size_t>(rows_)
                             ? lines_.size() - static_cast<size_t>(rows_)
                             : 0;
      row_ = std::max(row_ - std::min(row_, static_cast<size_t>(n)), top);
    } else if (c == 'K' || c == 'J') {
      if (lines_[row_].size() > column_) lines_[row_].resize(column_);
      if (c == 'J') lines_.resize(row_ + 1);
    } else if (c != 'm') {
      unknown_ += escape_;
    }
    escape_.clear();
  }

  int columns_, rows_;
  std::vector<std::string> lines_;
  size_t row_ = 0, column_ = 0, wraps_ = 0;
  std::string escape_, unknown_;
};

}  // namespace npu::test
