#include "client/render/text_renderer.hpp"

#include <fmt/format.h>

#include "client/render/progress_bar.hpp"
#include "client/render/text_format.hpp"

namespace npu::client {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace

void TextRenderer::on_event(const Event& event) {
  const auto columns = [this] {
    return options_.columns > 0 ? options_.columns : terminal_columns(options_.out_fd);
  };
  std::visit(
      Overloaded{
          [&](const StartEvent& e) {
            epochs_ = e.epochs;
            print(out_, format_start(e));
          },
          [&](const StepEvent& e) {
            if (e.display) print(out_, format_step(e));
            if (options_.traits.live) show_live(progress_line(e, epochs_, columns()));
          },
          [&](const ValStepEvent& e) {
            if (e.display) print(out_, format_val_step(e));
            if (options_.traits.live) show_live(progress_line(e, epochs_, columns()));
          },
          [&](const OverflowEvent& e) { print(out_, format_overflow(e)); },
          [&](const EpochEvent& e) {
            live_.clear();
            print(out_, format_epoch(e));
          },
          [&](const CheckpointEvent& e) { print(out_, format_checkpoint(e)); },
          [&](const RestartEvent& e) { print(err_, format_restart(e)); },
          [&](const ErrorEvent&) {},  // whoever ends the job says it in a sentence of its own
          [&](const DoneEvent& e) {
            live_.clear();
            print(out_, format_done(e));
          },
      },
      event);
}

void TextRenderer::log_line(LogStream stream, std::string_view line) {
  print(stream == LogStream::kStdout ? out_ : err_, line);
}

void TextRenderer::notice(std::string_view text) { print(err_, text); }

void TextRenderer::set_interrupt(int fd) {
  out_.set_interrupt(fd);
  err_.set_interrupt(fd);
}

void TextRenderer::finish() {
  live_.clear();
  erase();
}

void TextRenderer::print(Output& to, std::string_view text) {
  erase();
  std::string line(text);
  line += '\n';
  to.write(line);
  draw();
  if (out_.broken() != 0 && !warned_) {
    warned_ = true;
    err_.write("warning: " + errno_error(out_.broken(), "write to stdout").message +
               "; the job goes on without its output\n");
  }
}

void TextRenderer::show_live(std::string line) {
  live_ = std::move(line);
  if (on_screen_ && Clock::now() < drawn_at_ + options_.redraw_every) return;
  draw();
}

void TextRenderer::draw() {
  if (live_.empty()) return;
  const bool colour = options_.traits.colour;
  out_.write(
      fmt::format("\r{}{}{}\x1b[K", colour ? "\x1b[36m" : "", live_, colour ? "\x1b[0m" : ""));
  on_screen_ = true;
  drawn_at_ = Clock::now();
}

void TextRenderer::erase() {
  if (!on_screen_) return;
  out_.write("\r\x1b[K");
  on_screen_ = false;
}

}  // namespace npu::client
