// A Renderer that shows a job and records it.
#pragma once

#include "client/record/recorder.hpp"
#include "client/record/run_log.hpp"
#include "client/render/renderer.hpp"

namespace npu::client {

/// Hands everything on to `shown`, events to a Recorder, what a person would read to a RunLog as
/// well. Does not own `shown`. Thread: one at a time.
class RecordingRenderer : public Renderer {
 public:
  /// `options.warn` is replaced by a remark of `shown`. The log goes to the recorder's folder.
  RecordingRenderer(Renderer& shown, RecorderOptions options)
      : shown_(shown),
        log_({.folder = options.folder, .warn = warning()}),
        recorder_(with_warning(std::move(options))) {}

  void on_event(const Event& event) override {
    shown_.on_event(event);
    recorder_.on_event(event);
    log_.event(event);
  }
  void log_line(LogStream stream, std::string_view line) override { shown_.log_line(stream, line); }
  void rank_line(int rank, LogStream stream, std::string_view line) override {
    shown_.rank_line(rank, stream, line);
    log_.rank(rank, stream, line);
  }
  void notice(std::string_view text) override {
    shown_.notice(text);
    log_.launcher(LogStream::kStderr, text);
  }
  void remark(std::string_view text) override {
    shown_.remark(text);
    log_.launcher(LogStream::kStderr, text);
  }
  void set_interrupt(int fd) override { shown_.set_interrupt(fd); }
  [[nodiscard]] bool live() const override { return shown_.live(); }
  void refresh() override { shown_.refresh(); }
  void hide() override { shown_.hide(); }
  void finish() override { shown_.finish(); }

 private:
  [[nodiscard]] std::function<void(const std::string&)> warning() {
    return [this](const std::string& text) { shown_.remark("npu launch: " + text); };
  }
  [[nodiscard]] RecorderOptions with_warning(RecorderOptions options) {
    options.warn = warning();
    return options;
  }

  Renderer& shown_;
  RunLog log_;
  Recorder recorder_;
};

}  // namespace npu::client
