// Loss scaling for half-precision training: which factor the loss gets, and when it changes. A pure
// state machine: it sees no tensor, only whether the reduced gradients of a step were finite.
#pragma once

#include <cstdint>

#include "shm/base/error.hpp"

namespace npu::model {

/// Everything a resumed run needs to go on with the same scales.
struct GradScalerState {
  bool dynamic = false;
  float scale = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  int64_t growth_tracker = 0;  // good steps since the scale last changed
  int64_t skipped_steps = 0;
  int64_t consecutive_skips = 0;

  friend bool operator==(const GradScalerState&, const GradScalerState&) = default;
};

/// A state that is at its beginning.
[[nodiscard]] GradScalerState static_scale(double scale) noexcept;
[[nodiscard]] GradScalerState dynamic_scale(double init_scale, int64_t growth_interval) noexcept;

/// Errors: data_loss naming the field, its value and what was expected.
[[nodiscard]] Result<void> check_grad_scaler(const GradScalerState& state);

/// A step goes: backward with scale(), unscale(found_inf), step(), update(). Any other order is
/// failed_precondition and changes nothing.
///   - A step whose reduced gradients are not finite is skipped and counted, with a static scale
///     too.
///   - dynamic: such a step multiplies the scale with backoff_factor; growth_interval good ones in
///     a row multiply it with growth_factor, if the result is finite. Neither passes kMinScale or
///     kMaxScale.
///   - static: the scale never changes.
/// `found_inf` must come from reduced data, so that all ranks decide alike. Thread: one.
/// Source: torch.cuda.amp.GradScaler; the limits are TensorFlow's lower and apex's upper one.
class GradScaler {
 public:
  static constexpr float kMinScale = 1;
  static constexpr float kMaxScale = 16'777'216;  // 2^24

  /// `state` must have passed check_grad_scaler, or be a beginning.
  explicit GradScaler(const GradScalerState& state) noexcept : state_(state) {}

  /// Factor on the loss of the step in progress.
  [[nodiscard]] float scale() const noexcept { return state_.scale; }
  [[nodiscard]] const GradScalerState& state() const noexcept { return state_; }

  /// Notes whether this step's gradients are non-finite; returns what they must be multiplied
  /// with: 1/scale in double, rounded once.
  [[nodiscard]] Result<float> unscale(bool found_inf);
  /// True if the optimizer shall run.
  [[nodiscard]] Result<bool> step();
  /// Ends the step.
  [[nodiscard]] Result<void> update();

 private:
  enum class Phase : uint8_t { kReady, kUnscaled, kStepped };

  [[nodiscard]] Result<void> expect(Phase phase, const char* call) const;
  void back_off() noexcept;
  void grow() noexcept;

  GradScalerState state_;
  Phase phase_ = Phase::kReady;
  bool found_inf_ = false;
};

}  // namespace npu::model
