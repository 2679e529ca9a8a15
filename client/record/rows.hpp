// Steps, epochs and single numbers as lines of text: CSV and JSON. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/render/events.hpp"

namespace npu::client {

inline constexpr std::string_view kStepHeader =
    "step,epoch,step_in_epoch,loss,acc1,acc5,lr,scale,img_s,batch_s,data_s,timestamp";
inline constexpr std::string_view kEpochHeader =
    "epoch,step,train_loss,train_acc1,val_loss,val_acc1,val_acc5,val_ema_loss,val_ema_acc1,img_s,"
    "seconds,best,timestamp";
/// How a restart marker in a CSV file begins; the next step's number follows.
inline constexpr std::string_view kRestartPrefix = "# restart next_step=";

/// Rows without the newline, in the order of the headers. What was not measured is empty.
[[nodiscard]] std::string step_row(const StepEvent& step, double timestamp);
[[nodiscard]] std::string epoch_row(const EpochEvent& epoch, int64_t step, double timestamp);
[[nodiscard]] std::string restart_row(int64_t next_step, double timestamp);

/// One number of the whole job.
struct Metric {
  std::string_view name;
  double value = 0;
  std::string_view unit;  // "nats", "percent", "img/s", "s", "step", "" for a pure number
  int64_t step = 0;       // global
  int epoch = 0;
};

/// What of an event is a curve; without what was not measured.
[[nodiscard]] std::vector<Metric> metrics_of(const StepEvent& step);
[[nodiscard]] std::vector<Metric> metrics_of(const EpochEvent& epoch, int64_t step);

/// {"schema":1,"name":...,"rank":"all"}; a value that is not finite is null.
[[nodiscard]] std::string metric_line(const Metric& metric, double timestamp);

}  // namespace npu::client
