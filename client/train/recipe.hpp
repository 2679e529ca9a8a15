// What a job asks of the model, in the model's terms: pure functions of the job, tested without a
// device.
#pragma once

#include <cstdint>

#include "client/data/dataset.hpp"
#include "config/job.hpp"
#include "model/network.hpp"
#include "model/schedule.hpp"
#include "model/sgd.hpp"
#include "shm/base/dtype.hpp"

namespace npu::client {

/// The network that one rank plans for images of this shape, with `threads` compute threads.
[[nodiscard]] model::NetworkConfig network_config(const config::Job& job, int threads,
                                                  const data::ImageShape& shape);

/// The optimizer's settings; the caller fills in the learning rate of each step. Profile tf: the
/// job's weight_decay counts w^2, so the gradient gets twice that times w, from convolutions and
/// the fc with its bias, on whichever number of ranks; momentum takes the learning rate in.
[[nodiscard]] model::SgdParams sgd_params(const config::Job& job);

/// The job writes checkpoints at all.
[[nodiscard]] bool saves_checkpoints(const config::Job& job) noexcept;
/// It has the daemon keep some in memory.
[[nodiscard]] bool keeps_in_memory(const config::Job& job) noexcept;

/// How passes and ranks become the job's gradient: each pass computes `scale` times the gradient of
/// its mean loss, a rank adds its passes, `op` puts the ranks together. Both profiles give the
/// gradient of the mean over the global batch; pytorch averages means, tf adds shares.
struct ReductionForm {
  ReduceOp op = ReduceOp::kMean;
  float scale = 1;
};
[[nodiscard]] ReductionForm reduction_form(const config::Job& job);

/// Learning rate by position. Invariant: a closed form of it, so a resumed run gets the bits of a
/// straight one.
class LearningRate {
 public:
  /// Errors: invalid_argument naming the field.
  [[nodiscard]] static Result<LearningRate> of(const config::Job& job, int64_t steps_per_epoch);
  /// Rate of a step, both counted from 0.
  [[nodiscard]] double at(int epoch, int64_t step_in_epoch) const noexcept;

 private:
  model::Schedule schedule_;
  model::TfSchedule piecewise_;
  bool by_step_ = false;       // else it changes at epoch borders only
  bool is_piecewise_ = false;  // profile tf, step and multistep
  int64_t steps_per_epoch_ = 1;
};

}  // namespace npu::client
