#include "client/train/weight_average.hpp"

#include <algorithm>

namespace npu::client {
namespace {

void blend(std::span<const float> from, std::span<float> to, float decay) noexcept {
  constexpr size_t kRun = 16;  // the compiler makes vectors of a loop of known length
  const float* __restrict a = from.data();
  float* __restrict b = to.data();
  const float rest = 1 - decay;
  size_t i = 0;
  for (; i + kRun <= to.size(); i += kRun) {
    for (size_t j = 0; j < kRun; ++j) b[i + j] = decay * b[i + j] + rest * a[i + j];
  }
  for (; i < to.size(); ++i) b[i] = decay * b[i] + rest * a[i];
}

}  // namespace

uint64_t WeightAverage::bytes(const model::Network& network) noexcept {
  return network.memory().parameters + network.memory().bn_buffers;
}

Result<void> WeightAverage::place(model::Network& network, ArenaAllocator& arena, double decay) {
  NPU_TRY(parameters_, arena.take<float>(network.parameters_flat().size()));
  NPU_TRY(buffers_, arena.take<float>(network.bn_buffers().size()));
  decay_ = static_cast<float>(decay);
  return {};
}

void WeightAverage::start(model::Network& network) noexcept {
  std::ranges::copy(network.parameters_flat(), parameters_.begin());
  std::ranges::copy(network.bn_buffers(), buffers_.begin());
}

void WeightAverage::update(model::Network& network) noexcept {
  blend(network.parameters_flat(), parameters_, decay_);
  blend(network.bn_buffers(), buffers_, decay_);
}

void WeightAverage::swap(model::Network& network) noexcept {
  std::ranges::swap_ranges(network.parameters_flat(), parameters_);
  std::ranges::swap_ranges(network.bn_buffers(), buffers_);
  network.parameters_changed();
}

}  // namespace npu::client
