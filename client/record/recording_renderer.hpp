// A Renderer that shows a job and records it.
#pragma once

#include "client/record/recorder.hpp"
#include "client/render/renderer.hpp"

namespace npu::client {

/// Hands everything on to `shown`, events to a Recorder as well. Does not own `shown`. Thread: one
/// at a time.
class RecordingRenderer : public Renderer {
 public:
  /// `options.warn` is replaced by a notice of `shown`.
  RecordingRenderer(Renderer& shown, RecorderOptions options)
      : shown_(shown), recorder_(with_warning(std::move(options))) {}

  void on_event(const Event& event) override {
    shown_.on_event(event);
    recorder_.on_event(event);
  }
  void log_line(LogStream stream, std::string_view line) override { shown_.log_line(stream, line); }
  void notice(std::string_view text) override { shown_.notice(text); }
  void set_interrupt(int fd) override { shown_.set_interrupt(fd); }
  [[nodiscard]] bool live() const override { return shown_.live(); }
  void refresh() override { shown_.refresh(); }
  void hide() override { shown_.hide(); }
  void finish() override { shown_.finish(); }

 private:
  [[nodiscard]] RecorderOptions with_warning(RecorderOptions options) {
    options.warn = [this](const std::string& text) { shown_.notice("npu launch: " + text); };
    return options;
  }

  Renderer& shown_;
  Recorder recorder_;
};

}  // namespace npu::client
