// Closed forms of the learning-rate schedules.
#include "model/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace npu::model {
namespace {

double warmup_rate(const Schedule& s, double epoch) noexcept {
  const double length = s.warmup_epochs;
  if (s.warmup == WarmupForm::kConstant) return s.base_lr * s.warmup_factor;
  if (s.warmup == WarmupForm::kNextEpoch) {
    return s.base_lr * std::min(1.0, (epoch + 1) / length);
  }
  return s.base_lr * (s.warmup_factor + (1 - s.warmup_factor) * (epoch / length));
}

/// How much of the run after the warm-up is over, 0..1.
double part_done(const Schedule& s, double epoch) noexcept {
  const double length = std::max(1, s.epochs - s.warmup_epochs);
  return std::clamp((epoch - s.warmup_epochs) / length, 0.0, 1.0);
}

double cosine_rate(const Schedule& s, double epoch) noexcept {
  const double done = part_done(s, epoch);
  return s.min_lr + (s.base_lr - s.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace

Result<void> check_schedule(const Schedule& s) {
  if (!std::isfinite(s.base_lr) || s.base_lr < 0) {
    return fail(Code::kInvalidArgument, "schedule: lr is {}; expected a finite number >= 0",
                s.base_lr);
  }
  if (s.epochs < 1 || s.warmup_epochs < 0 || s.warmup_epochs > s.epochs) {
    return fail(Code::kInvalidArgument,
                "schedule: {} warm-up epochs of {}; expected 0 <= warmup_epochs <= epochs",
                s.warmup_epochs, s.epochs);
  }
  if (s.form == ScheduleForm::kStep && s.step_size < 1) {
    return fail(Code::kInvalidArgument, "schedule: step_size is {}; expected >= 1", s.step_size);
  }
  if (s.form == ScheduleForm::kMultistep &&
      !std::is_sorted(s.milestones.begin(), s.milestones.end())) {
    return fail(Code::kInvalidArgument, "schedule: milestones are not in ascending order");
  }
  return {};
}

double learning_rate(const Schedule& s, double epoch) noexcept {
  if (epoch < s.warmup_epochs) return warmup_rate(s, epoch);
  switch (s.form) {
    case ScheduleForm::kConstant:
      return s.base_lr;
    case ScheduleForm::kStep:
      return s.base_lr * std::pow(s.gamma, std::floor(epoch / s.step_size));
    case ScheduleForm::kMultistep: {
      const auto passed = std::count_if(s.milestones.begin(), s.milestones.end(),
                                        [&](int milestone) { return epoch >= milestone; });
      return s.base_lr * std::pow(s.gamma, static_cast<double>(passed));
    }
    case ScheduleForm::kCosine:
      return cosine_rate(s, epoch);
    case ScheduleForm::kLinear:
      return s.min_lr + (s.base_lr - s.min_lr) * (1 - part_done(s, epoch));
    case ScheduleForm::kExponential:
      return s.base_lr * std::pow(s.gamma, epoch - s.warmup_epochs);
  }
  return s.base_lr;
}

double learning_rate(const TfSchedule& s, int64_t step) noexcept {
  const int64_t warmup_steps = s.warmup_epochs * s.steps_per_epoch;
  if (step < warmup_steps) {
    return s.base_lr * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  size_t phase = 0;
  while (phase < s.boundaries.size() && step > s.boundaries[phase] * s.steps_per_epoch) {
    ++phase;
  }
  return s.base_lr * s.multipliers[std::min(phase, s.multipliers.size() - 1)];
}

}  // namespace npu::model
