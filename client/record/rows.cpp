#include "client/record/rows.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace npu::client {
namespace {

std::string number_or_nothing(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::optional<double> if_validated(const EpochEvent& e, double value) {
  return e.val_samples > 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string step_row(const StepEvent& e, double timestamp) {
  return fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.3f}", e.step, e.epoch,
                     e.step_in_epoch, e.loss, e.acc1, e.acc5, e.lr, e.scale, e.img_s, e.batch_s,
                     e.data_s, timestamp);
}

std::string epoch_row(const EpochEvent& e, int64_t step, double timestamp) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{},{:.3f}", e.epoch, step,
                     e.train_loss, e.train_acc1, number_or_nothing(if_validated(e, e.val_loss)),
                     number_or_nothing(if_validated(e, e.val_acc1)),
                     number_or_nothing(if_validated(e, e.val_acc5)),
                     number_or_nothing(e.val_ema_loss), number_or_nothing(e.val_ema_acc1), e.img_s,
                     e.seconds, e.best ? 1 : 0, timestamp);
}

std::string restart_row(int64_t next_step, double timestamp) {
  return fmt::format("{}{} timestamp={:.3f}", kRestartPrefix, next_step, timestamp);
}

std::vector<Metric> metrics_of(const StepEvent& e) {
  return {{"loss", e.loss, "nats", e.step, e.epoch},
          {"acc1", e.acc1, "percent", e.step, e.epoch},
          {"acc5", e.acc5, "percent", e.step, e.epoch},
          {"lr", e.lr, "", e.step, e.epoch},
          {"scale", e.scale, "", e.step, e.epoch},
          {"throughput", e.img_s, "img/s", e.step, e.epoch},
          {"step_time", e.batch_s, "s", e.step, e.epoch},
          {"data_time", e.data_s, "s", e.step, e.epoch}};
}

std::vector<Metric> metrics_of(const EpochEvent& e, int64_t step) {
  std::vector<Metric> all = {{"train_loss", e.train_loss, "nats", step, e.epoch},
                             {"train_acc1", e.train_acc1, "percent", step, e.epoch},
                             {"epoch_throughput", e.img_s, "img/s", step, e.epoch},
                             {"epoch_time", e.seconds, "s", step, e.epoch}};
  const auto add = [&](std::string_view name, std::optional<double> value, std::string_view unit) {
    if (value) all.push_back({name, *value, unit, step, e.epoch});
  };
  add("val_loss", if_validated(e, e.val_loss), "nats");
  add("val_acc1", if_validated(e, e.val_acc1), "percent");
  add("val_acc5", if_validated(e, e.val_acc5), "percent");
  add("val_ema_loss", e.val_ema_loss, "nats");
  add("val_ema_acc1", e.val_ema_acc1, "percent");
  return all;
}

std::string metric_line(const Metric& m, double timestamp) {
  // Names and units are ours: nothing in them needs escaping.
  return fmt::format(
      R"({{"schema":1,"name":"{}","value":{},"unit":"{}","global_step":{},"epoch":{},"timestamp":{:.3f},"rank":"all"}})",
      m.name, std::isfinite(m.value) ? fmt::format("{}", m.value) : "null", m.unit, m.step, m.epoch,
      timestamp);
}

}  // namespace npu::client
