#include "client/render/progress_bar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace npu::client {
namespace {

constexpr int kBarMax = 30, kBarMin = 6;

std::string bar(int64_t done, int64_t total, int width) {
  const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0;
  const int filled = static_cast<int>(std::clamp(part, 0.0, 1.0) * width);
  std::string text(static_cast<size_t>(filled), '=');
  if (filled < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return '[' + text + ']';
}

std::string fit(const std::string& head, int64_t done, int64_t total,
                std::span<const std::string> fields, int columns) {
  const auto limit = static_cast<size_t>(std::max(columns - 1, 1));
  const std::string count = fmt::format(" {}/{}", done, total);
  std::string tail;
  for (const std::string& field : fields) {
    if (head.size() + count.size() + tail.size() + field.size() + 2 > limit) break;
    tail += "  " + field;
  }
  const size_t used = head.size() + 1 + count.size() + tail.size() + 2;
  const int room = used < limit ? static_cast<int>(limit - used) : 0;
  std::string line = head;
  if (room >= kBarMin) line += ' ' + bar(done, total, std::min(room, kBarMax));
  line += count + tail;
  return line.substr(0, limit);
}

}  // namespace

std::string format_eta(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-:--";
  const auto total = static_cast<int64_t>(std::llround(seconds));
  const int64_t h = total / 3600, m = total / 60 % 60, s = total % 60;
  return h > 0 ? fmt::format("{}:{:02}:{:02}", h, m, s) : fmt::format("{}:{:02}", m, s);
}

std::string progress_line(const StepEvent& step, int epochs, int columns) {
  const int64_t left_epochs = std::max(epochs - step.epoch - 1, 0);
  const int64_t left =
      step.steps_per_epoch - step.step_in_epoch + left_epochs * step.steps_per_epoch;
  const std::string fields[] = {
      fmt::format("loss {:.4f}", step.loss), fmt::format("acc {:.2f}", step.acc1_avg),
      fmt::format("{:.0f} img/s", step.img_s),
      "ETA " +
          format_eta(step.batch_avg_s > 0 ? static_cast<double>(left) * step.batch_avg_s : -1)};
  return fit(fmt::format("epoch {}/{}", step.epoch + 1, epochs), step.step_in_epoch,
             step.steps_per_epoch, fields, columns);
}

std::string epoch_line(const StepEvent& step, int epochs, double job_s, int columns) {
  const int64_t left = step.steps_per_epoch - step.step_in_epoch;
  const int64_t total = std::max<int64_t>(step.steps_per_epoch, 1);
  const double epoch_s = step.batch_avg_s > 0 ? static_cast<double>(left) * step.batch_avg_s : -1;
  const std::string fields[] = {fmt::format("{} %", 100 * step.step_in_epoch / total),
                                "ETA " + format_eta(epoch_s), "job " + format_eta(job_s)};
  return fit(fmt::format("epoch {}/{}", step.epoch + 1, epochs), step.step_in_epoch,
             step.steps_per_epoch, fields, columns);
}

std::string progress_line(const ValStepEvent& step, int epochs, int columns) {
  const std::string fields[] = {fmt::format("loss {:.4f}", step.loss_avg),
                                fmt::format("acc {:.2f}", step.acc1_avg)};
  return fit(fmt::format("epoch {}/{} validate", step.epoch + 1, epochs), step.step_in_epoch,
             step.steps_per_epoch, fields, columns);
}

}  // namespace npu::client
