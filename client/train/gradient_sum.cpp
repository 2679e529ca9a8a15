#include "client/train/gradient_sum.hpp"

#include <algorithm>

namespace npu::client {
namespace {

constexpr size_t kRun = 16;  // parameters start at multiples of it, so buckets are whole runs

void add(std::span<const float> from, std::span<float> to) noexcept {
  NPU_CHECK(from.size() == to.size() && to.size() % kRun == 0);
  const float* __restrict a = from.data();
  float* __restrict b = to.data();
  for (size_t i = 0; i < to.size(); i += kRun) {
    for (size_t j = 0; j < kRun; ++j) b[i + j] += a[i + j];
  }
}

}  // namespace

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
    add(from, to);
  }
}

void GradientSum::add_to(model::Network& network, size_t bucket) const noexcept {
  add(kept(network, bucket), gradients(network, bucket));
}

}  // namespace npu::client
