#include "client/train/loss_scale.hpp"

#include <fmt/format.h>

namespace npu::client {
namespace {

bool is_dynamic(const config::PrecisionConfig& p) noexcept { return p.loss_scale == 0; }

std::string scale_text(const config::PrecisionConfig& p) {
  if (is_dynamic(p)) return fmt::format("dynamic loss scale from {}", p.init_scale);
  return fmt::format("loss scale {}", p.loss_scale);
}

const char* on_off(bool on) noexcept { return on ? "true" : "false"; }

}  // namespace

std::optional<model::GradScalerState> initial_scaler(const config::PrecisionConfig& p) {
  if (!p.amp) return std::nullopt;
  if (is_dynamic(p)) return model::dynamic_scale(p.init_scale, p.growth_interval);
  return model::static_scale(p.loss_scale);
}

ResumedScaler resumed_scaler(const SavedPrecision& saved, const config::PrecisionConfig& job) {
  ResumedScaler r;
  if (saved.amp != job.amp) {
    r.warnings.push_back(
        fmt::format("the checkpoint was trained with precision.amp={}, the job says {}",
                    on_off(saved.amp), on_off(job.amp)));
  }
  if (!job.amp) {
    r.scaler = saved.scaler;
    return r;
  }
  r.scaler = initial_scaler(job);
  if (!saved.scaler) {
    r.warnings.push_back("the checkpoint holds no loss scaler; starting with " + scale_text(job));
    return r;
  }
  const model::GradScalerState& s = *saved.scaler;
  if (s.dynamic && is_dynamic(job)) {
    if (s.growth_interval != job.growth_interval) {
      r.warnings.push_back(
          fmt::format("precision.growth_interval stays the checkpoint's {}, the job says {}",
                      s.growth_interval, job.growth_interval));
    }
    r.scaler = s;
    return r;
  }
  r.scaler->skipped_steps = s.skipped_steps;
  r.scaler->consecutive_skips = s.consecutive_skips;
  if (s.dynamic != r.scaler->dynamic || s.scale != r.scaler->scale) {
    r.warnings.push_back(fmt::format("the checkpoint's {} loss scale was {}, going on with {}",
                                     s.dynamic ? "dynamic" : "static", s.scale, scale_text(job)));
  }
  return r;
}

std::string precision_text(const config::PrecisionConfig& p) {
  return p.amp ? p.dtype + ", " + scale_text(p) : "fp32";
}

}  // namespace npu::client
