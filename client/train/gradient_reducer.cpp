#include "client/train/gradient_reducer.hpp"

namespace npu::client {
namespace {

bool finite(const CollectiveResult& result) noexcept {
  return !result.found_inf && !result.result_inf;
}

}  // namespace

uint64_t wire_elements(model::Network& network) { return network.parameters_flat().size(); }

GradientReducer::GradientReducer(model::Network& network, Communicator& world,
                                 const CollectiveOptions& options, ReduceOp op,
                                 std::span<uint16_t> wire)
    : network_(network),
      world_(world),
      options_(options),
      op_(op),
      wire_(wire),
      convert_(model::default_kernels(model::Format::kFp16)),
      works_(network.bucket_count()) {
  NPU_CHECK(wire.empty() || wire.size() == wire_elements(network));
}

/// What of a bucket takes the wire's type: everything, or with fp16 all but the metrics.
std::span<float> GradientReducer::gradients(size_t bucket) {
  const std::span<float> all = network_.gradient_bucket(bucket);
  const bool last = bucket + 1 == works_.size();
  if (wire_.empty() || !last) return all;
  return all.first(all.size() - network_.metrics_slot().size());
}

uint16_t* GradientReducer::staged(std::span<const float> gradients) {
  return wire_.data() + (gradients.data() - network_.gradient_bucket(0).data());
}

void GradientReducer::keep(Result<Work> work, Work& at) {
  if (work) {
    at = std::move(*work);
  } else if (!error_) {
    error_ = std::move(work.error());
  }
}

void GradientReducer::submit(size_t bucket) {
  const std::span<float> values = gradients(bucket);
  if (wire_.empty()) {
    keep(world_.all_reduce(values.data(), values.data(), values.size(), DType::kFloat32, op_,
                           options_),
         works_[bucket]);
    return;
  }
  uint16_t* const halves = staged(values);
  convert_.narrow(values.data(), halves, values.size());
  keep(world_.all_reduce(halves, halves, values.size(), DType::kFloat16, op_, options_),
       works_[bucket]);
  if (bucket + 1 < works_.size()) return;
  const std::span<float> slot = network_.metrics_slot();
  keep(world_.all_reduce(slot.data(), slot.data(), slot.size(), DType::kFloat32, op_, options_),
       metrics_);
}

Result<void> GradientReducer::check() const {
  if (error_) return tl::unexpected(*error_);
  return {};
}

Result<bool> GradientReducer::wait(size_t bucket) {
  NPU_TRY(const CollectiveResult reduced, works_[bucket].wait());
  if (wire_.empty()) return finite(reduced);
  const std::span<float> values = gradients(bucket);
  convert_.widen(staged(values), values.data(), values.size());
  if (bucket + 1 < works_.size()) return finite(reduced);
  NPU_TRY(const CollectiveResult metrics, metrics_.wait());
  return finite(reduced) && finite(metrics);
}

}  // namespace npu::client
