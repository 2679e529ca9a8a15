// Which rank sees which sample at which step. Pure functions of (seed, epoch, rank, world): nothing
// to save for a resume but the step, and an epoch can be entered at any step without touching the
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::data {

/// 0..n-1 shuffled: for i = 0..n-2 swap i with i + draw mod (n - i), draws from MT19937 seeded with
/// `seed`. Source: matches torch.randperm on CPU for n < 2^32 / 20.
[[nodiscard]] std::vector<uint32_t> permutation(uint32_t n, uint32_t seed);

/// What to do with samples that do not divide over the ranks.
enum class Remainder : uint8_t { kPad, kDrop };

struct ShardKey {
  int world = 1;
  int rank = 0;
  uint64_t seed = 0;
  int epoch = 0;
};

/// The samples of one rank in one epoch, in order: rank r takes r, r + world, ... of the
/// permutation keyed by seed + epoch (low 32 bits). kPad wraps around from the start until the
/// ranks are even, kDrop cuts the end. Source: matches torch.utils.data.DistributedSampler with
/// shuffle.
[[nodiscard]] std::vector<uint32_t> shard(uint32_t n, const ShardKey& key, Remainder remainder);

/// Samples in the order they are used, cut into batches; the last one may be smaller.
struct BatchPlan {
  std::vector<uint32_t> samples;
  size_t batch = 1;

  bool operator==(const BatchPlan&) const = default;

  [[nodiscard]] size_t batches() const noexcept { return (samples.size() + batch - 1) / batch; }
  [[nodiscard]] std::span<const uint32_t> of(size_t index) const noexcept {
    const size_t begin = index * batch;
    const size_t end = begin + batch < samples.size() ? begin + batch : samples.size();
    return std::span(samples).subspan(begin, end - begin);
  }
};

/// Steps of a training epoch: full global batches only, each of `world` ranks x `micro_batches` x
/// `rank_batch` images. Errors: failed_precondition, exit 65, naming all numbers, when the set does
/// not fill one.
[[nodiscard]] Result<int64_t> train_steps(size_t samples, int world, int rank_batch,
                                          int micro_batches = 1);

/// The rank's share of a training epoch from `first_step` (counts from 0 within the epoch) to its
/// end, `micro_batches` batches a step. Every batch is full, every rank has the same number of
/// steps, and step s uses the same samples whatever the world size and the micro-batches, as long
/// as the global batch is the same. Errors: as train_steps; a rank outside the world or a step
/// outside the epoch is invalid_argument.
[[nodiscard]] Result<BatchPlan> train_plan(size_t samples, const ShardKey& key, int rank_batch,
                                           int64_t first_step = 0, int micro_batches = 1);

/// Validation: rank r takes r, r + world, ... unshuffled, so the job counts every sample exactly
/// once. Ranks may have different numbers of batches, and a rank may have none.
[[nodiscard]] BatchPlan val_plan(size_t samples, int world, int rank, int rank_batch);

}  // namespace npu::data
