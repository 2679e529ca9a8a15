// Text to a descriptor that may be a slow pager, a closed pipe or a full disk: never a signal,
// never an endless wait once somebody asked the program to stop.
#pragma once

#include <string_view>

namespace npu::client {

/// Writes text in pieces that a ready pipe takes without blocking. Does not own its descriptor.
/// A failed write marks the output broken and later text is dropped: a job outlives its reader.
/// SIGPIPE must be ignored by the program. Thread: one at a time.
class Output {
 public:
  explicit Output(int fd) noexcept : fd_(fd) {}

  /// While the reader does not read, a readable `fd` (a signalfd) ends the wait and drops the text.
  void set_interrupt(int fd) noexcept { interrupt_fd_ = fd; }

  void write(std::string_view text) noexcept;

  /// errno of the write that broke it, 0 while it works.
  [[nodiscard]] int broken() const noexcept { return broken_; }

 private:
  int fd_;
  int interrupt_fd_ = -1;
  int broken_ = 0;
};

}  // namespace npu::client
