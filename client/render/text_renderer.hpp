// A job as text: the PyTorch example's lines on stdout, and on a terminal one live line below them.
#pragma once

#include <chrono>
#include <string>

#include "client/render/output.hpp"
#include "client/render/renderer.hpp"
#include "client/render/terminal.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {

struct TextOptions {
  int out_fd = 1;
  int err_fd = 2;
  TerminalTraits traits;           // terminal_traits(out_fd) for the real thing
  int columns = 0;                 // 0: ask the terminal at every redraw
  milliseconds redraw_every{100};  // a live line that flickers helps nobody
};

/// Invariant: whenever a line is printed the live line is gone from the screen first and comes back
/// after it. Without a terminal nothing is ever overwritten. Thread: one at a time.
class TextRenderer : public Renderer {
 public:
  explicit TextRenderer(const TextOptions& options) noexcept
      : options_(options), out_(options.out_fd), err_(options.err_fd) {}
  ~TextRenderer() override { TextRenderer::finish(); }
  TextRenderer(const TextRenderer&) = delete;
  TextRenderer& operator=(const TextRenderer&) = delete;

  void on_event(const Event& event) override;
  void log_line(LogStream stream, std::string_view line) override;
  void notice(std::string_view text) override;
  void set_interrupt(int fd) override;
  void finish() override;

 private:
  void print(Output& to, std::string_view text);
  void show_live(std::string line);
  void draw();
  void erase();

  TextOptions options_;
  Output out_, err_;
  int epochs_ = 0;
  std::string live_;  // what the live line says; empty: there is none
  bool on_screen_ = false;
  Clock::time_point drawn_at_{};
  bool warned_ = false;
};

}  // namespace npu::client
