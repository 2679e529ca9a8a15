#include "client/render/live_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "client/render/progress_bar.hpp"

namespace npu::client {
namespace {

constexpr int kRowsForAll = 8;

/// The fields that fit, two spaces apart; the first one is cut rather than left out.
std::string joined(const std::vector<std::string>& fields, int columns) {
  const auto limit = static_cast<size_t>(std::max(columns - 1, 1));
  std::string line;
  for (const std::string& field : fields) {
    const size_t gap = line.empty() ? 0 : 2;
    if (!line.empty() && line.size() + gap + field.size() > limit) break;
    line.append(gap, ' ');
    line += field;
  }
  return line.substr(0, limit);
}

std::string quality_line(const StepEvent& e, int columns) {
  std::vector<std::string> fields = {fmt::format("loss {:.4f} ({:.4f})", e.loss, e.loss_avg),
                                     fmt::format("acc {:.2f} ({:.2f})", e.acc1, e.acc1_avg),
                                     fmt::format("lr {:.4g}", e.lr)};
  if (e.scale != 1.0) fields.push_back(fmt::format("scale {}", e.scale));
  fields.push_back(fmt::format("acc@5 {:.2f} ({:.2f})", e.acc5, e.acc5_avg));
  return joined(fields, columns);
}

std::string lags(const RankSkew& skew) {
  std::string text = "lag";
  for (const double ms : skew.rank_lag_ms) text += fmt::format(" {:.1f}", ms);
  return text + " ms";
}

std::string speed_line(const StepEvent& e, const std::optional<RankSkew>& skew, int columns) {
  const double waits = e.batch_avg_s > 0 ? 100 * e.data_avg_s / e.batch_avg_s : 0;
  std::vector<std::string> fields = {fmt::format("{:.0f} img/s", e.img_s),
                                     fmt::format("data {:.1f} %", waits)};
  if (skew && skew->last >= 0) {
    fields.push_back(fmt::format("last rank {} ({:.0f} %, {:.1f} ms)", skew->last,
                                 100 * skew->share, skew->lag_ms));
  }
  fields.push_back(fmt::format("step {:.0f} ms", 1e3 * e.batch_avg_s));
  if (skew && skew->last >= 0) fields.push_back(lags(*skew));
  return joined(fields, columns);
}

/// Validations at the ends of `epoch` and those after it: every eval_every epochs and after the last.
int validations_left(const LiveState& state, int epoch) {
  if (epoch >= state.epochs) return 0;
  const int every = std::max(state.eval_every, 1);
  const int multiples = state.epochs / every - epoch / every;
  return multiples + (state.epochs % every != 0 ? 1 : 0);
}

}  // namespace

double job_eta_s(const LiveState& state) {
  if (!state.step || state.step->batch_avg_s <= 0) return -1;
  const StepEvent& e = *state.step;
  const int left_epochs = std::max(state.epochs - e.epoch - 1, 0);
  const auto steps =
      static_cast<double>(e.steps_per_epoch - e.step_in_epoch + left_epochs * e.steps_per_epoch);
  double validation = validations_left(state, e.epoch) * state.validation_s;
  if (state.val) {
    const ValStepEvent& v = *state.val;
    const double one = static_cast<double>(v.steps_per_epoch) * v.batch_avg_s;
    validation = validations_left(state, e.epoch + 1) * one +
                 static_cast<double>(v.steps_per_epoch - v.step_in_epoch) * v.batch_avg_s;
  }
  return steps * e.batch_avg_s + validation;
}

std::vector<std::string> live_lines(const LiveState& state, int columns, int rows) {
  if (!state.step && !state.val) return {};
  const bool all = rows >= kRowsForAll && state.step;
  std::vector<std::string> lines;
  if (state.val) {
    lines.push_back(progress_line(*state.val, state.epochs, columns));
  } else if (all) {
    lines.push_back(epoch_line(*state.step, state.epochs, job_eta_s(state), columns));
  } else {
    lines.push_back(progress_line(*state.step, state.epochs, columns));
  }
  if (!all) return lines;
  lines.push_back(quality_line(*state.step, columns));
  lines.push_back(speed_line(*state.step, state.skew, columns));
  return lines;
}

}  // namespace npu::client
