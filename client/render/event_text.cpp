#include "client/render/event_text.hpp"

#include "client/render/text_format.hpp"

namespace npu::client {
namespace {

using Text = std::optional<EventText>;

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

Text out(std::string text) { return EventText{LogStream::kStdout, std::move(text)}; }
Text err(std::string text) { return EventText{LogStream::kStderr, std::move(text)}; }

}  // namespace

std::optional<EventText> event_text(const Event& event) {
  return std::visit(
      Overloaded{
          [](const StartEvent& e) { return out(format_start(e)); },
          [](const StepEvent& e) { return e.display ? out(format_step(e)) : std::nullopt; },
          [](const ValStepEvent& e) { return e.display ? out(format_val_step(e)) : std::nullopt; },
          [](const OverflowEvent& e) { return out(format_overflow(e)); },
          [](const EpochEvent& e) { return out(format_epoch(e)); },
          [](const CheckpointEvent& e) { return out(format_checkpoint(e)); },
          [](const MemoryCheckpointEvent&) -> Text { return std::nullopt; },  // often, nothing to see
          [](const WarningEvent& e) { return err("warning: " + e.message); },
          [](const RestartEvent& e) { return err(format_restart(e)); },
          [](const ErrorEvent&) -> Text { return std::nullopt; },
          [](const EvalEvent& e) { return out(format_eval(e)); },
          [](const DoneEvent& e) { return out(format_done(e)); },
      },
      event);
}

}  // namespace npu::client
