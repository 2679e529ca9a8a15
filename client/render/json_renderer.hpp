// Events as JSON lines: for the pipe from a rank to its launcher and for `-o json`.
#pragma once

#include "client/render/output.hpp"
#include "client/render/renderer.hpp"

namespace npu::client {

/// Writes every event as one line of JSON to a descriptor that it does not own. A step takes no
/// memory.
class JsonSink : public EventSink {
 public:
  explicit JsonSink(int fd) noexcept : out_(fd) {}
  void on_event(const Event& event) override;

 private:
  Output out_;
};

/// `-o json`: one object a line on stdout; log lines and remarks on stderr. Every step is a record;
/// of a validation pass only those that a person would see.
class JsonRenderer : public Renderer {
 public:
  JsonRenderer(int out_fd, int err_fd, bool quiet = false) noexcept
      : out_(out_fd), err_(err_fd), quiet_(quiet) {}
  void on_event(const Event& event) override;
  void log_line(LogStream stream, std::string_view line) override;
  void notice(std::string_view text) override;
  void remark(std::string_view text) override {
    if (!quiet_) notice(text);
  }
  void set_interrupt(int fd) override;
  void finish() override {}

 private:
  Output out_, err_;
  bool quiet_;
};

}  // namespace npu::client
