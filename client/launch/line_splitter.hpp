// Bytes from a pipe into lines, whatever pieces they arrive in.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace npu::client {

/// Collects bytes until a newline. A line longer than the cap is handed out in pieces of the cap,
/// so a rank that never writes a newline costs bounded memory and loses nothing. Thread: one at a
/// time.
class LineSplitter {
 public:
  using OnLine = std::function<void(std::string_view)>;
  static constexpr size_t kCap = 64 * 1024;

  /// Calls `on_line` for every line that is complete, without its newline or a trailing CR.
  void feed(std::string_view bytes, const OnLine& on_line);

  /// At end of file: the last line, if it had no newline.
  void flush(const OnLine& on_line);

 private:
  std::string partial_;
};

}  // namespace npu::client
