// What is asked about gradients as a whole, after they were reduced: their norm, and who is to
// blame when they are not finite.
#include <array>
#include <cmath>

#include "model/network_impl.hpp"

namespace npu::model {
namespace {

/// Fixed lanes, folded in order: the bits depend on the values only. Squares of floats are exact.
double sum_squares(const float* values, uint64_t count) noexcept {
  constexpr uint64_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint64_t k = 0; k < kLanes; ++k) {
      const auto value = static_cast<double>(values[i + k]);
      lanes[k] += value * value;
    }
  }
  for (; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    lanes[i % kLanes] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void Network::add_gradient_squares(size_t i, double& sum) const noexcept {
  const Impl& m = *impl_;
  NPU_CHECK(m.gradient_memory != nullptr && i < bucket_count());
  const Bucket& bucket = m.parameters.buckets()[i];
  for (const size_t index : m.parameters.order()) {
    const Parameter& parameter = m.parameters[index];
    if (parameter.offset < bucket.begin || parameter.offset >= bucket.end) continue;
    sum += sum_squares(m.gradient_memory + parameter.offset, parameter.physical);
  }
}

NonFiniteGradient Network::first_non_finite_gradient() const noexcept {
  const Impl& m = *impl_;
  NPU_CHECK(m.gradient_memory != nullptr);
  for (const size_t index : m.parameters.order()) {
    const Parameter& parameter = m.parameters[index];
    const float* gradient = m.gradient_memory + parameter.offset;
    for (uint64_t k = 0; k < parameter.physical; ++k) {
      if (!std::isfinite(gradient[k])) return {parameter.name, std::isnan(gradient[k])};
    }
  }
  return {};
}

}  // namespace npu::model
