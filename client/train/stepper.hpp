// One training step of one rank: forward, backward, all-reduce, optimizer.
#pragma once

#include <optional>

#include "client/data/loader.hpp"
#include "client/train/gradient_reducer.hpp"
#include "client/train/recipe.hpp"
#include "client/train/replica.hpp"
#include "model/grad_scaler.hpp"
#include "model/sgd.hpp"

namespace npu::client {

/// What one step showed, over all ranks.
struct StepMetrics {
  double loss = 0;            // mean
  double top1 = 0, top5 = 0;  // hits
  double scale = 1;           // of the loss, in this step
  bool skipped = false;       // the gradients were not finite: nothing was updated
  bool stop = false;          // a rank was asked to stop; the same on all
};

/// Forward and backward, as many passes as the job accumulates, with each bucket's all-reduce
/// started as it completes in the last one; then the optimizer: bucket by bucket as they arrive,
/// or, when the step may be skipped or clipped, after the last one. Whether it is skipped follows
/// from the all-reduces' results alone, so every rank decides the same. Thread: one.
class Stepper {
 public:
  /// With `scaler` the loss is scaled, and steps whose gradients are not finite are skipped.
  explicit Stepper(Replica& replica, const std::optional<model::GradScalerState>& scaler = {});
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// One of the train.accumulate passes of a step; its batch is free afterwards. The last one
  /// starts the all-reduces. Errors: as the collectives say.
  [[nodiscard]] Result<void> pass(const data::Batch& batch);
  /// Ends the step after its last pass; `step` is its number for messages. Errors: as the
  /// collectives say; failed_precondition (exit 65) when a gradient is not finite and there is no
  /// scaler (train.nan_loss: abort), or for the precision.max_skips-th time in a row, naming the
  /// parameter.
  [[nodiscard]] Result<StepMetrics> finish(double lr, int64_t step = 0);

  /// Before the last pass of a step: lets the job stop after it.
  void request_stop() noexcept { stop_ = true; }

  /// The scaler as the next step needs it.
  [[nodiscard]] std::optional<model::GradScalerState> scaler() const;

 private:
  [[nodiscard]] size_t image_elements() const;
  [[nodiscard]] bool last_pass() const noexcept;
  [[nodiscard]] float loss_scale() const noexcept;
  void fill_metrics(int rank_batch);
  void bucket_ready(size_t bucket);
  [[nodiscard]] Result<void> update_as_they_arrive();
  [[nodiscard]] Result<bool> update_together();
  [[nodiscard]] tl::unexpected<Error> diverged();
  [[nodiscard]] Result<std::string> describe_losses();
  [[nodiscard]] tl::unexpected<Error> keeps_overflowing() const;

  Replica& replica_;
  model::SgdParams params_;
  ReductionForm reduction_;
  double clip_norm_;  // 0 = off
  std::optional<model::GradScaler> scaler_;
  GradientReducer reducer_;
  model::BucketReady on_bucket_;
  int passes_ = 0;            // of the step under way
  model::LossAndHits local_;  // of those
  double local_loss_ = 0;     // mean of this rank
  int64_t step_ = 0;
  bool stop_ = false;
  bool tolerant_;  // train.nan_loss: continue
};

}  // namespace npu::client
