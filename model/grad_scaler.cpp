// The transitions of the loss scale and the order that calls must keep.
#include "model/grad_scaler.hpp"

#include <algorithm>
#include <cmath>

namespace npu::model {
namespace {

Result<void> check_factor(const char* field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return {};
  return fail(Code::kDataLoss, "loss scaler: {} is {}; expected a number in {}..{}", field, value,
              low, high);
}

Result<void> check_count(const char* field, int64_t value, int64_t low) {
  if (value >= low) return {};
  return fail(Code::kDataLoss, "loss scaler: {} is {}; expected {} or more", field, value, low);
}

}  // namespace

GradScalerState static_scale(double scale) noexcept {
  return {.dynamic = false, .scale = static_cast<float>(scale)};
}

GradScalerState dynamic_scale(double init_scale, int64_t growth_interval) noexcept {
  return {
      .dynamic = true, .scale = static_cast<float>(init_scale), .growth_interval = growth_interval};
}

Result<void> check_grad_scaler(const GradScalerState& s) {
  const auto scale = static_cast<double>(s.scale);
  // Not the smallest normal number: its inverse would not be finite.
  NPU_TRY_VOID(check_factor("scale", scale, 0x1p-100, 0x1p100));
  NPU_TRY_VOID(check_factor("growth_factor", s.growth_factor, 1, 1e6));
  NPU_TRY_VOID(check_factor("backoff_factor", s.backoff_factor, 1e-6, 1));
  NPU_TRY_VOID(check_count("growth_interval", s.growth_interval, 1));
  NPU_TRY_VOID(check_count("growth_tracker", s.growth_tracker, 0));
  NPU_TRY_VOID(check_count("consecutive_skips", s.consecutive_skips, 0));
  NPU_TRY_VOID(check_count("skipped_steps", s.skipped_steps, s.consecutive_skips));
  if (s.growth_tracker >= s.growth_interval) {
    return fail(Code::kDataLoss, "loss scaler: growth_tracker is {}; expected less than {}",
                s.growth_tracker, s.growth_interval);
  }
  return {};
}

Result<void> GradScaler::expect(Phase phase, const char* call) const {
  if (phase_ == phase) return {};
  const char* next = "unscale()";
  if (phase_ == Phase::kUnscaled) next = "step()";
  if (phase_ == Phase::kStepped) next = "update()";
  return fail(Code::kFailedPrecondition, "loss scaler: {} where {} is due", call, next);
}

Result<float> GradScaler::unscale(bool found_inf) {
  NPU_TRY_VOID(expect(Phase::kReady, "unscale()"));
  phase_ = Phase::kUnscaled;
  found_inf_ = found_inf;
  return static_cast<float>(1.0 / static_cast<double>(state_.scale));
}

Result<bool> GradScaler::step() {
  NPU_TRY_VOID(expect(Phase::kUnscaled, "step()"));
  phase_ = Phase::kStepped;
  return !found_inf_;
}

Result<void> GradScaler::update() {
  NPU_TRY_VOID(expect(Phase::kStepped, "update()"));
  phase_ = Phase::kReady;
  if (found_inf_) {
    ++state_.skipped_steps;
    ++state_.consecutive_skips;
  } else {
    state_.consecutive_skips = 0;
  }
  if (!state_.dynamic) return {};
  if (found_inf_) {
    back_off();
  } else if (++state_.growth_tracker == state_.growth_interval) {
    grow();
  }
  return {};
}

// A scale that was chosen beyond a limit stays there until it moves back by itself.
void GradScaler::back_off() noexcept {
  const auto next = static_cast<float>(static_cast<double>(state_.scale) * state_.backoff_factor);
  state_.scale = std::min(state_.scale, std::max(next, kMinScale));
  state_.growth_tracker = 0;
}

void GradScaler::grow() noexcept {
  const auto next = static_cast<float>(static_cast<double>(state_.scale) * state_.growth_factor);
  if (std::isfinite(next)) state_.scale = std::max(state_.scale, std::min(next, kMaxScale));
  state_.growth_tracker = 0;
}

}  // namespace npu::model
