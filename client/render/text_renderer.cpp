#include "client/render/text_renderer.hpp"

#include <fmt/format.h>

#include "client/render/event_text.hpp"

namespace npu::client {
namespace {

constexpr std::chrono::seconds kSkewEvery{1};

}  // namespace

void TextRenderer::on_event(const Event& event) {
  remember(event);
  const auto said = event_text(event);
  if (said && !(options_.quiet && std::holds_alternative<WarningEvent>(event))) {
    print(said->stream == LogStream::kStdout ? out_ : err_, said->text);
  }
  const bool moves =
      std::holds_alternative<StepEvent>(event) || std::holds_alternative<ValStepEvent>(event);
  if (moves && options_.traits.live) refresh();
}

/// What the live lines show from here on.
void TextRenderer::remember(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event)) {
    start_ = *start;
    state_ = {.epochs = start->epochs, .eval_every = start->eval_every};
  } else if (const auto* step = std::get_if<StepEvent>(&event)) {
    state_.step = *step;
    state_.val.reset();
  } else if (const auto* val = std::get_if<ValStepEvent>(&event)) {
    state_.val = *val;
    state_.validation_s = static_cast<double>(val->steps_per_epoch) * val->batch_avg_s;
  } else if (std::holds_alternative<EpochEvent>(event)) {
    state_.step.reset();
    state_.val.reset();
  } else if (std::holds_alternative<EvalEvent>(event)) {
    state_.val.reset();
  } else if (std::holds_alternative<DoneEvent>(event)) {
    finish();
  }
}

void TextRenderer::log_line(LogStream stream, std::string_view line) {
  print(stream == LogStream::kStdout ? out_ : err_, line);
}

void TextRenderer::notice(std::string_view text) { print(err_, text); }

void TextRenderer::remark(std::string_view text) {
  if (!options_.quiet) print(err_, text);
}

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
