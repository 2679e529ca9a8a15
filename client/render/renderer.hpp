// What shows a job to a person or a program: events, the output of its ranks, remarks of the
// launcher. Data goes to stdout, everything else to stderr; the two renderers differ in what counts
// as data.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "client/render/events.hpp"

namespace npu::client {

enum class LogStream : uint8_t { kStdout, kStderr };

/// An EventSink that also shows plain lines. Thread: one at a time.
class Renderer : public EventSink {
 public:
  /// One line of a rank's own output, already prefixed, without the newline.
  virtual void log_line(LogStream stream, std::string_view line) = 0;

  /// The same, not prefixed yet: "[rank 3] " comes in front of it.
  virtual void rank_line(int rank, LogStream stream, std::string_view line) {
    log_line(stream, fmt::format("[rank {}] {}", rank, line));
  }

  /// What the program itself has to say, one or more lines without the last newline; to stderr.
  virtual void notice(std::string_view text) = 0;

  /// The same for what nobody has to act on: --quiet leaves it out.
  virtual void remark(std::string_view text) { notice(text); }

  /// A readable descriptor that says "stop waiting for the reader of our output".
  virtual void set_interrupt(int fd) = 0;

  /// True if something is overwritten in place: then refresh() is to be called every 250 ms or so,
  /// and hide() before the program is suspended.
  [[nodiscard]] virtual bool live() const { return false; }
  /// Brings what is live up to date, with the size of the terminal as it is now.
  virtual void refresh() {}
  /// Takes it off the screen until the next event or refresh.
  virtual void hide() {}

  /// Leaves the terminal as it was found. Nothing is shown afterwards but notices.
  virtual void finish() = 0;
};

}  // namespace npu::client
