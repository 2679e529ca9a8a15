// The rank's end of TrainingProgress.
#pragma once

#include <string_view>

#include "shm/progress_data.hpp"

namespace npu::shm {

/// One training step as the whole job saw it.
struct StepReport {
  uint64_t epoch = 0;         // from 0
  double loss = 0;            // mean
  double top1 = 0, top5 = 0;  // 0 to 1
  double learning_rate = 0, loss_scale = 1;
  bool skipped = false;
  uint64_t samples = 0;
  double data_wait_s = 0;
};

/// Thread: one a page. Cost: a dozen stores to a line that nobody else writes; neither lock nor system call.
void report_step(TrainingProgress& progress, const StepReport& step) noexcept;

/// Hits as ratio. Thread: as report_step.
void report_validation(TrainingProgress& progress, double loss, double top1, double top5) noexcept;

/// Names of the network and the precision, cut to their fields. Once, before the first report.
void describe_training(TrainingProgress& progress, std::string_view arch, std::string_view precision) noexcept;

}  // namespace npu::shm
