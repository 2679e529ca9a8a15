// The last lines of a terminal, overwritten in place: which bytes put them there and take them
// away. Knows what is on the screen, writes nothing itself.
#pragma once

#include <string>
#include <vector>

namespace npu::client {

/// Invariants: the cursor stays behind the last line that was drawn; what is drawn fits the width
/// it is drawn for. Thread: one at a time.
class LiveArea {
 public:
  explicit LiveArea(bool colour) noexcept : colour_(colour) {}

  /// Bytes that replace what is on the screen by `lines`, none longer than `columns` - 1.
  [[nodiscard]] std::string draw(const std::vector<std::string>& lines, int columns);

  /// Bytes that leave nothing and the cursor where the area began; none if nothing is there. A
  /// window that was made narrower has wrapped lines, which take more rows than they did.
  [[nodiscard]] std::string erase(int columns);

  [[nodiscard]] bool on_screen() const noexcept { return !widths_.empty(); }

 private:
  [[nodiscard]] std::string to_the_top(int columns) const;

  bool colour_;
  std::vector<size_t> widths_;  // of the lines that are on the screen
};

}  // namespace npu::client
