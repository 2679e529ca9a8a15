#include "client/train/gradient_sum.hpp"

#include <algorithm>

namespace npu::client {

uint64_t GradientSum::bytes(const model::Network& network) noexcept {
  return network.memory().gradients;
}

Result<void> GradientSum::place(model::Network& network, ArenaAllocator& arena) {
  NPU_TRY(sum_, arena.take<float>(network.parameters_flat().size()));
  return {};
}

std::span<float> GradientSum::gradients(model::Network& network, size_t bucket) noexcept {
  const std::span<float> all = network.gradient_bucket(bucket);
  const bool last = bucket + 1 == network.bucket_count();
  return all.first(all.size() - (last ? network.metrics_slot().size() : 0));
}

std::span<float> GradientSum::kept(model::Network& network, size_t bucket) const noexcept {
  const std::span<float> bucket_gradients = gradients(network, bucket);
  const auto begin =
      static_cast<size_t>(bucket_gradients.data() - network.gradient_bucket(0).data());
  return sum_.subspan(begin, bucket_gradients.size());
}

void GradientSum::keep(model::Network& network, size_t bucket, bool first) noexcept {
  const std::span<float> from = gradients(network, bucket);
  const std::span<float> to = kept(network, bucket);
  if (first) {
    std::copy(from.begin(), from.end(), to.begin());
  } else {
    kernels_.add(to.data(), from.data(), to.data(), to.size());
  }
}

void GradientSum::add_to(model::Network& network, size_t bucket) const noexcept {
  const std::span<float> to = gradients(network, bucket);
  kernels_.add(to.data(), kept(network, bucket).data(), to.data(), to.size());
}

}  // namespace npu::client
