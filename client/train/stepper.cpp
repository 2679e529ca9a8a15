#include "client/train/stepper.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "shm/base/failpoint.hpp"

namespace npu::client {
namespace {

std::string describe(const model::NonFiniteGradient& found) {
  if (found.name.empty()) return "the loss is not finite";
  return fmt::format("the gradient of '{}' holds {}", found.name, found.nan ? "NaN" : "infinity");
}

}  // namespace

Stepper::Stepper(Replica& replica, const std::optional<model::GradScalerState>& scaler)
    : replica_(replica),
      params_(sgd_params(replica.job())),
      reduction_(reduction_form(replica.job())),
      clip_norm_(replica.job().optimizer.clip_grad_norm),
      reducer_(replica.network(), replica.world(), replica.collective_options(), reduction_.op,
               replica.wire()),
      tolerant_(replica.job().train.nan_loss == config::NanLoss::kContinue) {
  if (scaler) scaler_.emplace(*scaler);
  // Bound once: constructing a std::function in every step could allocate.
  on_bucket_ = [this](size_t bucket) { bucket_ready(bucket); };
}

std::optional<model::GradScalerState> Stepper::scaler() const {
  if (!scaler_) return std::nullopt;
  return scaler_->state();
}

bool Stepper::last_pass() const noexcept { return passes_ == replica_.job().train.accumulate; }

float Stepper::loss_scale() const noexcept { return scaler_ ? scaler_->scale() : 1.0F; }

Result<void> Stepper::pass(const data::Batch& batch) {
  model::Network& network = replica_.network();
  const auto n = static_cast<size_t>(batch.n);
  // Batch norm's running statistics move here, before anybody knows whether the step will be
  // skipped; they keep what they got, as PyTorch's do.
  NPU_TRY(const model::LossAndHits local,
          network.forward_train({batch.images, n * image_elements()}, {batch.labels, n}));
  NPU_TRY_VOID(replica_.network_error());
  ++passes_;
  local_ += local;
  if (last_pass()) fill_metrics(batch.n);
  reducer_.begin_pass();
  NPU_TRY_VOID(network.backward(on_bucket_, reduction_.scale * loss_scale()));
  NPU_FAILPOINT("train.after_backward");
  NPU_TRY_VOID(replica_.network_error());
  return reducer_.check();
}

/// The job's metrics ride in the last bucket: no collective of their own.
void Stepper::fill_metrics(int rank_batch) {
  const std::span<float> slot = replica_.network().metrics_slot();
  std::fill(slot.begin(), slot.end(), 0.0f);
  local_loss_ = local_.loss_sum / (rank_batch * passes_);
  slot[0] = static_cast<float>(local_.loss_sum / rank_batch) * reduction_.scale;
  slot[1] = static_cast<float>(local_.top1);
  slot[2] = static_cast<float>(local_.top5);
  slot[3] = stop_ ? 1.0F : 0.0F;
}

Result<StepMetrics> Stepper::finish(double lr, int64_t step) {
  NPU_CHECK(last_pass());
  step_ = step;
  passes_ = 0;
  local_ = {};
  params_.lr = static_cast<float>(lr);
  const double scale = loss_scale();
  replica_.settle();
  bool updated = true;
  if (scaler_ || clip_norm_ > 0) {
    NPU_TRY(updated, update_together());
  } else {
    NPU_TRY_VOID(update_as_they_arrive());
  }
  if (WeightAverage* const average = replica_.average(); average != nullptr && updated) {
    average->update(replica_.network());
  }
  const std::span<const float> slot = replica_.network().metrics_slot();
  const double parts = reduction_.op == ReduceOp::kMean ? replica_.job().world() : 1;
  return StepMetrics{.loss = slot[0],
                     .top1 = std::round(slot[1] * parts),
                     .top5 = std::round(slot[2] * parts),
                     .scale = scale,
                     .skipped = !updated,
                     .stop = slot[3] > 0};
}

size_t Stepper::image_elements() const {
  const auto& c = replica_.network().config();
  return static_cast<size_t>(c.height) * static_cast<size_t>(c.width) *
         static_cast<size_t>(c.channels);
}

void Stepper::bucket_ready(size_t bucket) {
  if (GradientSum* const sum = replica_.gradient_sum(); sum != nullptr) {
    if (!last_pass()) return sum->keep(replica_.network(), bucket, passes_ == 1);
    sum->add_to(replica_.network(), bucket);
  }
  NPU_FAILPOINT("train.before_all_reduce");
  reducer_.submit(bucket);
}

Result<void> Stepper::update_as_they_arrive() {
  model::Network& network = replica_.network();
  for (size_t i = 0; i < network.bucket_count(); ++i) {
    NPU_TRY(const bool finite, reducer_.wait(i));
    if (!finite && !tolerant_) return diverged();
    network.sgd_step(i, params_);
  }
  return {};
}

/// True if the step was applied, false if it was skipped: all of it or nothing.
Result<bool> Stepper::update_together() {
  model::Network& network = replica_.network();
  bool finite = true;
  double squares = 0;
  for (size_t i = 0; i < network.bucket_count(); ++i) {
    NPU_TRY(const bool bucket_finite, reducer_.wait(i));
    finite = finite && bucket_finite;
    if (clip_norm_ > 0) network.add_gradient_squares(i, squares);
  }
  if (!scaler_ && !finite && !tolerant_) return diverged();
  bool apply = true;
  params_.gradient_scale = 1;
  if (scaler_) {
    NPU_TRY(params_.gradient_scale, scaler_->unscale(!finite));
    NPU_TRY(apply, scaler_->step());
  }
  if (apply && clip_norm_ > 0) {
    params_.gradient_scale = model::clip_factor(squares, params_.gradient_scale, clip_norm_);
  }
  for (size_t i = 0; apply && i < network.bucket_count(); ++i) network.sgd_step(i, params_);
  if (!scaler_) return apply;
  NPU_TRY_VOID(scaler_->update());
  if (scaler_->state().consecutive_skips >= replica_.job().precision.max_skips) {
    return keeps_overflowing();
  }
  return apply;
}

/// Whose loss is not finite. Every rank is here, since all saw the same flags, so that they can
/// tell each other; a number for each rank travels inside the descriptor.
Result<std::string> Stepper::describe_losses() {
  std::array<float, shm::kMaxDevices> losses = {};
  losses[static_cast<size_t>(replica_.rank())] = static_cast<float>(local_loss_);
  NPU_TRY(Work work,
          replica_.world().all_reduce(losses.data(), losses.data(), losses.size(), DType::kFloat32,
                                      ReduceOp::kSum, replica_.collective_options()));
  NPU_TRY_VOID(work.wait());
  double sum = 0;
  const int world = replica_.job().world();
  for (int rank = 0; rank < world; ++rank) {
    const auto loss = static_cast<double>(losses[static_cast<size_t>(rank)]);
    if (!std::isfinite(loss)) return fmt::format("the loss of rank {} is {}", rank, loss);
    sum += loss;
  }
  return fmt::format("the loss was {:.4e}", sum / world);
}

/// The buckets up to the first bad one have arrived; it is found before the others are looked at.
tl::unexpected<Error> Stepper::diverged() {
  const std::string found = describe(replica_.network().first_non_finite_gradient());
  const auto losses = describe_losses();
  if (!losses) return tl::unexpected(losses.error());
  return fail(Code::kFailedPrecondition,
              "training diverged in step {}: {}; {}; lower optimizer.lr (now {:g}) or add "
              "schedule.warmup_epochs",
              step_, *losses, found, params_.lr);
}

tl::unexpected<Error> Stepper::keeps_overflowing() const {
  return fail(Code::kFailedPrecondition,
              "gradients non-finite for {} consecutive steps: {}; lower optimizer.lr (now {:g}) or "
              "the loss scale (now {}), or use precision.dtype=bf16",
              scaler_->state().consecutive_skips,
              describe(replica_.network().first_non_finite_gradient()), params_.lr,
              scaler_->scale());
}

}  // namespace npu::client
