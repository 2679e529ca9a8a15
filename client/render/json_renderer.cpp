#include "client/render/json_renderer.hpp"

#include "client/render/step_line.hpp"

namespace npu::client {

void JsonSink::on_event(const Event& event) {
  if (const auto* step = std::get_if<StepEvent>(&event)) return out_.write(StepLine(*step).text());
  out_.write(to_json(event) + '\n');
}

void JsonRenderer::on_event(const Event& event) {
  const auto* val_step = std::get_if<ValStepEvent>(&event);
  if (val_step != nullptr && !val_step->display) return;
  out_.write(to_json(event) + '\n');
}

void JsonRenderer::log_line(LogStream, std::string_view line) {
  err_.write(std::string(line) + '\n');
}

void JsonRenderer::notice(std::string_view text) { err_.write(std::string(text) + '\n'); }

void JsonRenderer::set_interrupt(int fd) {
  out_.set_interrupt(fd);
  err_.set_interrupt(fd);
}

}  // namespace npu::client
