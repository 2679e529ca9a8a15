#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "client/render/events.hpp"
#include "client/render/step_line.hpp"

namespace npu::client {
namespace {

// Keys leave in the order they are listed below: type first, then what a reader looks for.
using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

// One list of fields an event serves both directions; E is the event or the const event.
template <typename E, typename Event_>
concept Is = std::is_same_v<std::remove_const_t<E>, Event_>;

void visit(auto&& f, Is<StartEvent> auto& e) {
  f("run", e.run), f("arch", e.arch), f("parameters", e.parameters);
  f("precision", e.precision), f("algorithm", e.algorithm), f("daemon", e.daemon);
  f("data", e.data), f("world", e.world), f("devices", e.devices);
  f("global_batch", e.global_batch), f("rank_batch", e.rank_batch);
  f("steps_per_epoch", e.steps_per_epoch), f("epochs", e.epochs), f("eval_every", e.eval_every), f("lr", e.lr);
  f("schedule", e.schedule), f("seed", e.seed);
  f("resumed_step", e.resumed_step), f("resumed_from", e.resumed_from);
  f("pretrained", e.pretrained);
  f("notes", e.notes), f("warnings", e.warnings);
}

void visit(auto&& f, Is<StepEvent> auto& e) {
  f("epoch", e.epoch), f("step", e.step), f("loss", e.loss), f("acc1", e.acc1);
  f("lr", e.lr), f("scale", e.scale), f("img_s", e.img_s);
  f("step_in_epoch", e.step_in_epoch), f("steps_per_epoch", e.steps_per_epoch);
  f("display", e.display), f("loss_avg", e.loss_avg), f("acc1_avg", e.acc1_avg);
  f("acc5", e.acc5), f("acc5_avg", e.acc5_avg), f("batch_s", e.batch_s);
  f("batch_avg_s", e.batch_avg_s), f("data_s", e.data_s), f("data_avg_s", e.data_avg_s);
}

void visit(auto&& f, Is<ValStepEvent> auto& e) {
  f("epoch", e.epoch), f("step_in_epoch", e.step_in_epoch);
  f("steps_per_epoch", e.steps_per_epoch), f("display", e.display);
  f("loss", e.loss), f("loss_avg", e.loss_avg), f("acc1", e.acc1), f("acc1_avg", e.acc1_avg);
  f("acc5", e.acc5), f("acc5_avg", e.acc5_avg);
  f("batch_s", e.batch_s), f("batch_avg_s", e.batch_avg_s);
}

void visit(auto&& f, Is<OverflowEvent> auto& e) { f("step", e.step), f("scale", e.scale); }

void visit(auto&& f, Is<EpochEvent> auto& e) {
  f("epoch", e.epoch), f("train_loss", e.train_loss), f("train_acc1", e.train_acc1);
  f("val_loss", e.val_loss), f("val_acc1", e.val_acc1), f("val_acc5", e.val_acc5);
  f("val_ema_loss", e.val_ema_loss), f("val_ema_acc1", e.val_ema_acc1);
  f("val_ema_acc5", e.val_ema_acc5);
  f("val_samples", e.val_samples), f("img_s", e.img_s), f("seconds", e.seconds);
  f("best", e.best);
}

void visit(auto&& f, Is<CheckpointEvent> auto& e) {
  f("step", e.step), f("best", e.best), f("path", e.path), f("bytes", e.bytes);
  f("stall_ms", e.stall_ms), f("durable_ms", e.durable_ms);
}

void visit(auto&& f, Is<MemoryCheckpointEvent> auto& e) {
  f("step", e.step), f("bytes", e.bytes);
  f("stall_ms", e.stall_ms), f("copied_ms", e.copied_ms);
}

void visit(auto&& f, Is<WarningEvent> auto& e) { f("step", e.step), f("message", e.message); }

void visit(auto&& f, Is<RestartEvent> auto& e) {
  f("attempt", e.attempt), f("reason", e.reason), f("step", e.step);
}

void visit(auto&& f, Is<ErrorEvent> auto& e) {
  f("code", e.code), f("exit_code", e.exit_code), f("rank", e.rank), f("pid", e.pid);
  f("op", e.op), f("seq", e.seq), f("message", e.message), f("fault", e.fault);
}

void visit(auto&& f, Is<DoneEvent> auto& e) {
  f("epochs", e.epochs), f("steps", e.steps), f("skipped_steps", e.skipped_steps);
  f("best_acc1", e.best_acc1), f("acc1", e.acc1), f("best_epoch", e.best_epoch);
  f("img_s", e.img_s), f("seconds", e.seconds), f("checkpoint", e.checkpoint);
  f("best_checkpoint", e.best_checkpoint), f("stopped", e.stopped), f("note", e.note);
  f("bad_images", e.bad_images), f("staged_copies", e.staged_copies);
  f("weights_digest", e.weights_digest), f("verified", e.verified);
}

void visit(auto&& f, Is<EvalEvent> auto& e) {
  f("epoch", e.epoch), f("loss", e.loss), f("acc1", e.acc1), f("acc5", e.acc5);
  f("samples", e.samples), f("ema_loss", e.ema_loss), f("ema_acc1", e.ema_acc1);
  f("ema_acc5", e.ema_acc5);
}

// In the order of the variant's alternatives.
constexpr const char* kTypeNames[] = {"start", "step",       "val_step", "overflow",
                                      "epoch", "checkpoint", "restart",  "error",
                                      "done",  "eval",       "warning",  "memory_checkpoint"};
static_assert(std::size(kTypeNames) == std::variant_size_v<Event>);

struct Writer {
  Json& out;
  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      out[key] = std::isfinite(value) ? Json(value) : Json(nullptr);
    } else if constexpr (requires { value.has_value(); }) {
      if (value) out[key] = *value;
    } else {
      out[key] = value;
    }
  }
};

// The same for flat events, into bytes of the caller; what does not fit is left out.
struct BytesWriter {
  std::span<char> bytes;
  size_t size = 0;

  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    const size_t room = bytes.size() - size;
    const auto written =
        fmt::format_to_n(bytes.data() + size, room, text, std::forward<Args>(args)...);
    size += std::min(written.size, room);
  }
  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return add(",\"{}\":null", key);
    }
    add(",\"{}\":{}", key, value);
  }
};

// A key that is missing keeps its default, so that a newer reader takes older lines; a key of the
// wrong kind throws and becomes data_loss.
struct Reader {
  const Json& in;
  template <typename T>
  void operator()(const char* key, T& value) {
    const auto found = in.find(key);
    if (found == in.end()) return;
    if constexpr (std::is_floating_point_v<T>) {
      value = found->is_null() ? std::numeric_limits<T>::quiet_NaN() : found->template get<T>();
    } else if constexpr (requires { value.has_value(); }) {
      if (!found->is_null()) value = found->template get<typename T::value_type>();
    } else {
      value = found->template get<T>();
    }
  }
};

template <size_t I = 0>
Event read_event(std::string_view type, const Json& in) {
  if constexpr (I < std::variant_size_v<Event>) {
    if (type != kTypeNames[I]) return read_event<I + 1>(type, in);
    std::variant_alternative_t<I, Event> event;
    visit(Reader{in}, event);
    return event;
  } else {
    throw std::invalid_argument(fmt::format("unknown type '{}'", type));
  }
}

}  // namespace

std::string to_json(const Event& event) {
  Json out = {{"schema", kSchema}, {"type", kTypeNames[event.index()]}};
  std::visit([&out](const auto& e) { visit(Writer{out}, e); }, event);
  // A message may quote bytes of a file name that are not UTF-8; they must not cost the record.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StepLine::StepLine(const StepEvent& step) noexcept {
  BytesWriter out{bytes_};
  out.add("{{\"schema\":{},\"type\":\"step\"", kSchema);
  visit([&out](const char* key, const auto& value) { out(key, value); }, step);
  out.add("}}\n");
  size_ = out.size;
}

Result<Event> event_from_json(std::string_view line) {
  try {
    const Json in = Json::parse(line);
    if (const int schema = in.at("schema").get<int>(); schema != kSchema) {
      throw std::invalid_argument(fmt::format("schema {} where {} was expected", schema, kSchema));
    }
    return read_event(in.at("type").get<std::string>(), in);
  } catch (const std::exception& e) {
    return fail(Code::kDataLoss, "read event '{}': {}", line.substr(0, 200), e.what());
  }
}

}  // namespace npu::client
