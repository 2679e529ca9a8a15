#include "client/render/text_renderer.hpp"

#include <fmt/format.h>

#include "client/render/text_format.hpp"

namespace npu::client {
namespace {

constexpr std::chrono::seconds kSkewEvery{1};

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace

void TextRenderer::on_event(const Event& event) {
  std::visit(
      Overloaded{
          [&](const StartEvent& e) {
            start_ = e;
            state_ = {.epochs = e.epochs, .eval_every = e.eval_every};
            print(out_, format_start(e));
          },
          [&](const StepEvent& e) { step(e); },
          [&](const ValStepEvent& e) { validation(e); },
          [&](const OverflowEvent& e) { print(out_, format_overflow(e)); },
          [&](const EpochEvent& e) {
            state_.step.reset();
            state_.val.reset();
            print(out_, format_epoch(e));
          },
          [&](const CheckpointEvent& e) { print(out_, format_checkpoint(e)); },
          [&](const MemoryCheckpointEvent&) {},  // often, and nothing to look at
          [&](const WarningEvent& e) { print(err_, "warning: " + e.message); },
          [&](const RestartEvent& e) { print(err_, format_restart(e)); },
          [&](const ErrorEvent&) {},  // whoever ends the job says it in a sentence of its own
          [&](const EvalEvent& e) {
            state_.val.reset();
            print(out_, format_eval(e));
          },
          [&](const DoneEvent& e) {
            finish();
            print(out_, format_done(e));
          },
      },
      event);
}

void TextRenderer::step(const StepEvent& e) {
  state_.step = e;
  state_.val.reset();
  if (e.display) print(out_, format_step(e));
  if (options_.traits.live) refresh();
}

void TextRenderer::validation(const ValStepEvent& e) {
  state_.val = e;
  state_.validation_s = static_cast<double>(e.steps_per_epoch) * e.batch_avg_s;
  if (e.display) print(out_, format_val_step(e));
  if (options_.traits.live) refresh();
}

void TextRenderer::log_line(LogStream stream, std::string_view line) {
  print(stream == LogStream::kStdout ? out_ : err_, line);
}

void TextRenderer::notice(std::string_view text) { print(err_, text); }

void TextRenderer::set_interrupt(int fd) {
  out_.set_interrupt(fd);
  err_.set_interrupt(fd);
}

void TextRenderer::refresh() {
  if (!live()) return;
  const auto now = Clock::now();
  if (area_.on_screen() && now < drawn_at_ + options_.redraw_every) return;
  ask_for_skew();
  const std::string bytes = live_bytes();
  if (!bytes.empty()) out_.write(bytes);
  drawn_at_ = now;
}

void TextRenderer::ask_for_skew() {
  const auto now = Clock::now();
  if (!options_.skew || !state_.step || now < skew_at_ + kSkewEvery) return;
  skew_at_ = now;
  state_.skew = options_.skew(start_);
}

void TextRenderer::hide() { out_.write(area_.erase(size().columns)); }

void TextRenderer::finish() {
  state_ = {.epochs = state_.epochs, .eval_every = state_.eval_every};
  hide();
}

void TextRenderer::print(Output& to, std::string_view text) {
  std::string line = area_.erase(size().columns);
  if (&to != &out_) out_.write(std::exchange(line, {}));
  line += text;
  line += '\n';
  // Back with the same write: on the screen the live lines never go away.
  if (&to == &out_) line += live_bytes();
  to.write(line);
  if (&to != &out_) out_.write(live_bytes());
  if (out_.broken() != 0 && !warned_) {
    warned_ = true;
    err_.write("warning: " + errno_error(out_.broken(), "write to stdout").message +
               "; the job goes on without its output\n");
  }
}

TerminalSize TextRenderer::size() const {
  if (options_.columns > 0) return {.columns = options_.columns, .rows = options_.rows};
  return terminal_size(options_.out_fd);
}

std::string TextRenderer::live_bytes() {
  if (!live() || !in_foreground(options_.out_fd)) return {};
  const TerminalSize now = size();
  return area_.draw(live_lines(state_, now.columns, now.rows), now.columns);
}

}  // namespace npu::client
