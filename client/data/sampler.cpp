// std::mt19937 is the generator the reference uses: the standard fixes both its seeding and its
// stream.
#include "client/data/sampler.hpp"

#include <limits>
#include <numeric>
#include <random>

namespace npu::data {

std::vector<uint32_t> permutation(uint32_t n, uint32_t seed) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 generator(seed);
  for (uint32_t i = 0; i + 1 < n; ++i) {
    const auto j = i + static_cast<uint32_t>(generator() % (n - i));
    std::swap(order[i], order[j]);
  }
  return order;
}

std::vector<uint32_t> shard(uint32_t n, const ShardKey& key, Remainder remainder) {
  const auto world = static_cast<uint32_t>(key.world);
  const std::vector<uint32_t> order =
      permutation(n, static_cast<uint32_t>(key.seed + static_cast<uint64_t>(key.epoch)));
  const uint32_t per_rank = remainder == Remainder::kPad ? n / world + (n % world != 0) : n / world;
  std::vector<uint32_t> mine(per_rank);
  for (uint32_t i = 0; i < per_rank; ++i) {
    const uint64_t position = uint64_t{i} * world + static_cast<uint32_t>(key.rank);
    mine[i] = order[position % n];  // beyond the end only with kPad
  }
  return mine;
}

Result<int64_t> train_steps(size_t samples, int world, int rank_batch, int micro_batches) {
  NPU_CHECK(world >= 1 && rank_batch >= 1 && micro_batches >= 1);
  if (samples > std::numeric_limits<uint32_t>::max()) {
    return fail(Code::kFailedPrecondition,
                "plan an epoch: {} samples, at most 2^32-1 are supported", samples);
  }
  const int64_t images = int64_t{rank_batch} * micro_batches;  // of one rank in one step
  const size_t steps = samples / static_cast<size_t>(world) / static_cast<size_t>(images);
  if (steps == 0) {
    return fail(Code::kFailedPrecondition,
                "plan an epoch: {} training samples do not fill one step of {} ranks x {} images; "
                "lower train.batch_size to {} or less",
                samples, world, images,
                samples / static_cast<size_t>(world) * static_cast<size_t>(world));
  }
  return static_cast<int64_t>(steps);
}

Result<BatchPlan> train_plan(size_t samples, const ShardKey& key, int rank_batch,
                             int64_t first_step, int micro_batches) {
  if (key.world < 1 || key.rank < 0 || key.rank >= key.world || key.epoch < 0 || rank_batch < 1 ||
      micro_batches < 1) {
    return fail(Code::kInvalidArgument,
                "plan an epoch: rank {} of {}, epoch {}, {} batches of {} images a step", key.rank,
                key.world, key.epoch, micro_batches, rank_batch);
  }
  NPU_TRY(const int64_t steps, train_steps(samples, key.world, rank_batch, micro_batches));
  if (first_step < 0 || first_step > steps) {
    return fail(Code::kInvalidArgument, "plan an epoch: first step {} is outside its {} steps",
                first_step, steps);
  }
  const int64_t images = int64_t{rank_batch} * micro_batches;
  std::vector<uint32_t> mine = shard(static_cast<uint32_t>(samples), key, Remainder::kDrop);
  return BatchPlan{.samples = {mine.begin() + first_step * images, mine.begin() + steps * images},
                   .batch = static_cast<size_t>(rank_batch)};
}

BatchPlan val_plan(size_t samples, int world, int rank, int rank_batch) {
  NPU_CHECK(world >= 1 && rank >= 0 && rank < world && rank_batch >= 1);
  BatchPlan plan{.samples = {}, .batch = static_cast<size_t>(rank_batch)};
  for (size_t i = static_cast<size_t>(rank); i < samples; i += static_cast<size_t>(world)) {
    plan.samples.push_back(static_cast<uint32_t>(i));
  }
  return plan;
}

}  // namespace npu::data
