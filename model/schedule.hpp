// Learning-rate schedules in closed form of the epoch, so a resumed run gets the same bits as a
// straight one.
#pragma once

#include <cstdint>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::model {

enum class ScheduleForm : uint8_t { kConstant, kStep, kMultistep, kCosine, kLinear, kExponential };

/// How the warm-up epochs rise to the base rate.
enum class WarmupForm : uint8_t {
  kFromFactor,  // epoch e of W: base * (f + (1-f) * e/W); torchvision's reference uses f = 0.01
  kNextEpoch,   // epoch e of W: base * (e+1)/W; NVIDIA's ResNet
  kConstant,    // base * f; ResNet-110 on CIFAR: f = 0.1, W = 1
};

struct Schedule {
  ScheduleForm form = ScheduleForm::kStep;
  double base_lr = 0.1;
  int epochs = 90;  // cosine, linear: length of the run, warm-up included
  int warmup_epochs = 0;
  WarmupForm warmup = WarmupForm::kFromFactor;
  double warmup_factor = 0.01;
  int step_size = 30;                // step
  double gamma = 0.1;                // step, multistep: of a drop; exponential: of an epoch
  std::vector<int> milestones = {};  // multistep: epochs, ascending
  double min_lr = 0;                 // cosine, linear: the rate at the end
};

/// Errors: invalid_argument naming the field.
[[nodiscard]] Result<void> check_schedule(const Schedule& schedule);

/// Learning rate at `epoch` (0 = first). A fraction (epoch + step/steps_per_epoch) gives a per-step
/// schedule; whole numbers give torch's per-epoch one. Steps and milestones count from the start of
/// the run; cosine, linear and exponential start where the warm-up ends. Source: golden values of
/// torchvision's reference script, of NVIDIA's ResNet and of step/30.
[[nodiscard]] double learning_rate(const Schedule& schedule, double epoch) noexcept;

/// Rate of the TF ResNet script at a global step: linear from 0 over the warm-up, then piecewise
/// constant; the boundary step itself keeps the old value. `boundaries` in epochs, one `multiplier`
/// more than those.
struct TfSchedule {
  double base_lr = 0.1;  // 0.1 * global batch / 256
  int64_t steps_per_epoch = 1;
  int warmup_epochs = 5;
  std::vector<int> boundaries = {30, 60, 80};
  std::vector<double> multipliers = {1.0, 0.1, 0.01, 0.001};
};
[[nodiscard]] double learning_rate(const TfSchedule& schedule, int64_t step) noexcept;

}  // namespace npu::model
