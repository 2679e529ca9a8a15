// A job as text: the PyTorch example's lines on stdout, and on a terminal a few live lines below
// them.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "client/render/live_area.hpp"
#include "client/render/live_view.hpp"
#include "client/render/output.hpp"
#include "client/render/renderer.hpp"
#include "client/render/terminal.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {

struct TextOptions {
  int out_fd = 1;
  int err_fd = 2;
  TerminalTraits traits;           // terminal_traits(out_fd) for the real thing
  int columns = 0, rows = 24;      // columns 0: ask the terminal for both at every redraw
  milliseconds redraw_every{100};  // live lines that flicker help nobody
  bool quiet = false;              // no remarks and warnings
  /// Who came last in the collectives of late, asked once a second at most; may be empty.
  std::function<std::optional<RankSkew>(const StartEvent&)> skew;
};

/// Invariant: whenever a line is printed the live lines are gone from the screen first and come
/// back after it, in one write where both go to stdout. Without a terminal nothing is ever
/// overwritten. Thread: one at a time.
class TextRenderer : public Renderer {
 public:
  explicit TextRenderer(TextOptions options)
      : options_(std::move(options)),
        out_(options_.out_fd),
        err_(options_.err_fd),
        area_(options_.traits.colour) {}
  ~TextRenderer() override { TextRenderer::finish(); }
  TextRenderer(const TextRenderer&) = delete;
  TextRenderer& operator=(const TextRenderer&) = delete;

  void on_event(const Event& event) override;
  void log_line(LogStream stream, std::string_view line) override;
  void notice(std::string_view text) override;
  void remark(std::string_view text) override;
  void set_interrupt(int fd) override;
  [[nodiscard]] bool live() const override { return options_.traits.live; }
  void refresh() override;
  void hide() override;
  void finish() override;

 private:
  void print(Output& to, std::string_view text);
  void remember(const Event& event);
  void ask_for_skew();
  [[nodiscard]] TerminalSize size() const;
  [[nodiscard]] std::string live_bytes();

  TextOptions options_;
  Output out_, err_;
  LiveArea area_;
  StartEvent start_;
  LiveState state_;
  Clock::time_point drawn_at_{}, skew_at_{};
  bool warned_ = false;
};

}  // namespace npu::client
