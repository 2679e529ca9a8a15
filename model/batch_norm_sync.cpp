#include "model/batch_norm_sync.hpp"

#include <algorithm>

#include "shm/base/error.hpp"

namespace npu::model {

uint64_t BatchNormSync::forward(BatchNorm& bn, uint64_t count) const {
  if (!sum) return count;
  NPU_CHECK(staging.size() >= 2 * bn.channels);
  double* const first = staging.data();
  double* const second = first + bn.channels;
  const auto rows = static_cast<double>(count);
  // Each rank summed about a pivot of its own; sums about zero can be added. In doubles, a mean has
  // to be millions of deviations away before that costs anything in fp32.
  for (size_t i = 0; i < bn.channels; ++i) {
    const auto pivot = static_cast<double>(bn.mean[i]);
    first[i] = bn.sum[i] + rows * pivot;
    second[i] = bn.square[i] + 2 * pivot * bn.sum[i] + rows * pivot * pivot;
  }
  sum(staging.first(2 * bn.channels));
  const uint64_t total = count * static_cast<uint64_t>(ranks);
  const auto all = static_cast<double>(total);
  for (size_t i = 0; i < bn.channels; ++i) {
    bn.mean[i] = static_cast<float>(first[i] / all);
    const auto pivot = static_cast<double>(bn.mean[i]);
    bn.sum[i] = first[i] - all * pivot;
    bn.square[i] = second[i] - 2 * pivot * first[i] + all * pivot * pivot;
  }
  return total;
}

uint64_t BatchNormSync::backward(BatchNorm& bn, uint64_t count) const {
  if (!sum) return count;
  std::copy_n(bn.sum, bn.channels, staging.data());
  std::copy_n(bn.square, bn.channels, staging.data() + bn.channels);
  sum(staging.first(2 * bn.channels));
  std::copy_n(staging.data(), bn.channels, bn.sum);
  std::copy_n(staging.data() + bn.channels, bn.channels, bn.square);
  return count * static_cast<uint64_t>(ranks);
}

}  // namespace npu::model
