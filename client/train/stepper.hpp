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

/// Forward, backward with each bucket's all-reduce started as it completes, then the optimizer
/// bucket by bucket. Thread: one.
class Stepper {
 public:
  explicit Stepper(Replica& replica);
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Errors: as the collectives say; failed_precondition (exit 65) when a gradient is not finite.
  [[nodiscard]] Result<StepMetrics> run(const data::Batch& batch, double lr);

 private:
  [[nodiscard]] size_t image_elements() const;
  void reduce(size_t bucket);
  [[nodiscard]] tl::unexpected<Error> diverged(size_t bucket) const;

  Replica& replica_;
  model::SgdParams params_;
  ReductionForm reduction_;
  CollectiveOptions options_;
  std::vector<Work> works_;
  model::BucketReady on_bucket_;
  std::optional<Error> submit_error_;
};

}  // namespace npu::client
