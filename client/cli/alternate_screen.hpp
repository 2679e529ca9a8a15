// A program that looks until somebody has seen enough: it ends well with Ctrl-C at any moment, also
// while it waits for an answer, and the terminal is then as it was.
#pragma once

namespace npu::cli {

/// While it lives SIGINT ends the program with exit code 0. If `take` is set it also holds the
/// alternate screen of the terminal at stdout, and gives it back before the program ends by a
/// signal or is suspended; it is taken again when the program goes on, which ends a poll() with
/// EINTR. One a program. Thread: the main thread.
class AlternateScreen {
 public:
  explicit AlternateScreen(bool take) noexcept;
  ~AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
};

}  // namespace npu::cli
