// The daemon's end of TrainingProgress: a copy, made once, in which texts are harmless.
#pragma once

#include <string>

#include "shm/progress_data.hpp"

namespace npu::shm {

/// As the rank says; any number may be there, infinities and NaN among them.
struct TrainingView {
  std::string arch, precision;  // letters, digits and a few signs; empty: not said
  uint64_t steps = 0;           // reported, 0: what follows up to data_wait_s is unknown
  uint64_t epoch = 0;
  double loss = 0, top1 = 0, top5 = 0;
  double learning_rate = 0, loss_scale = 0;
  uint64_t skipped = 0, samples = 0;
  double data_wait_s = 0;
  uint64_t validations = 0;  // 0: what follows is unknown
  double val_loss = 0, val_top1 = 0, val_top5 = 0;
};

/// Thread: any. Numbers of one step may be mixed with those of the next.
[[nodiscard]] TrainingView read_progress(const TrainingProgress& progress);

}  // namespace npu::shm
