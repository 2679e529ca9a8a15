// One training step of one rank: forward, backward, all-reduce, optimizer.
#pragma once

#include <optional>
#include <vector>

#include "client/data/loader.hpp"
#include "client/train/recipe.hpp"
#include "client/train/replica.hpp"
#include "model/sgd.hpp"

namespace npu::client {

/// What one step showed, over all ranks.
struct StepMetrics {
  double loss = 0;            // mean
  double top1 = 0, top5 = 0;  // hits
};

/// Forward and backward, as many passes as the job accumulates, with each bucket's all-reduce
/// started as it completes in the last one; then the optimizer bucket by bucket. Thread: one.
class Stepper {
 public:
  explicit Stepper(Replica& replica);
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// One of the train.accumulate passes of a step; its batch is free afterwards. The last one
  /// starts the all-reduces. Errors: as the collectives say.
  [[nodiscard]] Result<void> pass(const data::Batch& batch);
  /// Ends the step after its last pass.
  /// Errors: as the collectives say; failed_precondition (exit 65) when a gradient is not finite.
  [[nodiscard]] Result<StepMetrics> finish(double lr);

 private:
  [[nodiscard]] size_t image_elements() const;
  [[nodiscard]] bool last_pass() const noexcept;
  void fill_metrics(int rank_batch);
  void reduce(size_t bucket);
  [[nodiscard]] tl::unexpected<Error> diverged(size_t bucket) const;

  Replica& replica_;
  model::SgdParams params_;
  ReductionForm reduction_;
  CollectiveOptions options_;
  std::vector<Work> works_;
  model::BucketReady on_bucket_;
  int passes_ = 0;            // of the step under way
  model::LossAndHits local_;  // of those
  std::optional<Error> submit_error_;
};

}  // namespace npu::client
