// The loss scaler that a job starts or goes on with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/job.hpp"
#include "model/grad_scaler.hpp"

namespace npu::client {

/// What the job asks for, at its beginning; nothing without precision.amp.
[[nodiscard]] std::optional<model::GradScalerState> initial_scaler(const config::PrecisionConfig&);

/// What a checkpoint tells of the precision it was trained with.
struct SavedPrecision {
  bool amp = false;
  std::optional<model::GradScalerState> scaler;
};

/// The scaler that a resumed job goes on with, and a sentence for each thing that differs from what
/// the checkpoint or the job says. A dynamic scaler is the checkpoint's, exactly; a static scale is
/// the job's, with the checkpoint's counts. Without amp, a saved scaler is kept for a later resume.
struct ResumedScaler {
  std::optional<model::GradScalerState> scaler;
  std::vector<std::string> warnings;
};
[[nodiscard]] ResumedScaler resumed_scaler(const SavedPrecision& saved,
                                           const config::PrecisionConfig& job);

/// "fp32", "fp16, loss scale 1024", "fp16, dynamic loss scale from 65536".
[[nodiscard]] std::string precision_text(const config::PrecisionConfig& job);

}  // namespace npu::client
