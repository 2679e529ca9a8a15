#include "client/train/stepper.hpp"

#include <algorithm>
#include <cmath>

namespace npu::client {

Stepper::Stepper(Replica& replica)
    : replica_(replica),
      params_(sgd_params(replica.job())),
      reduction_(reduction_form(replica.job())),
      options_(replica.collective_options()) {
  works_.resize(replica.network().bucket_count());
  // Bound once: constructing a std::function in every step could allocate.
  on_bucket_ = [this](size_t bucket) { reduce(bucket); };
}

bool Stepper::last_pass() const noexcept { return passes_ == replica_.job().train.accumulate; }

Result<void> Stepper::pass(const data::Batch& batch) {
  model::Network& network = replica_.network();
  const auto n = static_cast<size_t>(batch.n);
  NPU_TRY(const model::LossAndHits local,
          network.forward_train({batch.images, n * image_elements()}, {batch.labels, n}));
  NPU_TRY_VOID(replica_.network_error());
  ++passes_;
  local_ += local;
  if (last_pass()) fill_metrics(batch.n);
  submit_error_.reset();
  NPU_TRY_VOID(network.backward(on_bucket_, reduction_.scale));
  NPU_TRY_VOID(replica_.network_error());
  if (submit_error_) return tl::unexpected(*submit_error_);
  return {};
}

/// The job's metrics ride in the last bucket: no collective of their own.
void Stepper::fill_metrics(int rank_batch) {
  const std::span<float> slot = replica_.network().metrics_slot();
  std::fill(slot.begin(), slot.end(), 0.0f);
  slot[0] = static_cast<float>(local_.loss_sum / rank_batch) * reduction_.scale;
  slot[1] = static_cast<float>(local_.top1);
  slot[2] = static_cast<float>(local_.top5);
}

Result<StepMetrics> Stepper::finish(double lr) {
  NPU_CHECK(last_pass());
  passes_ = 0;
  local_ = {};
  params_.lr = static_cast<float>(lr);
  model::Network& network = replica_.network();
  for (size_t i = 0; i < works_.size(); ++i) {
    NPU_TRY(const CollectiveResult reduced, works_[i].wait());
    if (reduced.found_inf || reduced.result_inf) return diverged(i);
    network.sgd_step(i, params_);
  }
  if (WeightAverage* const average = replica_.average(); average != nullptr) {
    average->update(network);
  }
  const std::span<const float> slot = network.metrics_slot();
  const double parts = reduction_.op == ReduceOp::kMean ? replica_.job().world() : 1;
  return StepMetrics{slot[0], std::round(slot[1] * parts), std::round(slot[2] * parts)};
}

size_t Stepper::image_elements() const {
  const auto& c = replica_.network().config();
  return static_cast<size_t>(c.height) * static_cast<size_t>(c.width) *
         static_cast<size_t>(c.channels);
}

void Stepper::reduce(size_t bucket) {
  if (GradientSum* const sum = replica_.gradient_sum(); sum != nullptr) {
    if (!last_pass()) return sum->keep(replica_.network(), bucket, passes_ == 1);
    sum->add_to(replica_.network(), bucket);
  }
  const std::span<float> gradients = replica_.network().gradient_bucket(bucket);
  auto work = replica_.world().all_reduce(gradients.data(), gradients.data(), gradients.size(),
                                          DType::kFloat32, reduction_.op, options_);
  if (work) {
    works_[bucket] = std::move(*work);
  } else if (!submit_error_) {
    submit_error_ = work.error();
  }
}

tl::unexpected<Error> Stepper::diverged(size_t bucket) const {
  return fail(
      Code::kFailedPrecondition,
      "training diverged: gradient bucket {} of {} holds NaN or infinity; lower optimizer.lr "
      "(now {:g}) or add schedule.warmup_epochs",
      bucket, works_.size(), params_.lr);
}

}  // namespace npu::client
