// Steps of several passes: against PyTorch's gradients of each micro-batch, and against two passes
// of a network of one's own.
#include <cstdio>

#include "train_ranks.hpp"

namespace npu::train {
namespace {

config::Job job_with(const std::string& devices, int batch, int passes) {
  return small_job({.devices = devices,
                    .batch = batch,
                    .train = ", accumulate: " + std::to_string(passes),
                    .collectives = ", bucket_bytes: 64KiB",
                    .more = "optimizer: {weight_decay: 1.0e-3}\n"});
}

class AccumulateTest : public TrainTest {};

TEST_F(AccumulateTest, MatchesPytorchsMeanOverMicroBatchesAndRanks) {
  const golden::Golden want =
      golden::read_golden(std::string(NPU_GOLDEN_DIR) + "/recipe_accumulate.golden");
  ASSERT_EQ(want.losses.size(), 8u);
  const std::vector<double> rates = {0.02, 0.02, 0.02, 0.02, 0.002, 0.002, 0.002, 0.002};
  Tensors got;
  const auto losses = train_golden(daemon_, job_with("0-1", 24, 3), rates, got);
  ASSERT_EQ(losses.size(), 8u);
  for (size_t s = 0; s < 8; ++s) EXPECT_NEAR(losses[s], want.losses[s], 1e-4 * want.losses[s]);
  const double worst = distance(got, want);
  std::printf("largest relative difference of a tensor: %.1e\n", worst);
  EXPECT_LE(worst, 1e-4);
  // One pass over the whole batch has other batch statistics: the test can tell.
  train_golden(daemon_, job_with("0-1", 24, 1), rates, got);
  EXPECT_GT(distance(got, want), 1e-3);
}

TEST_F(AccumulateTest, GradientIsTheSumOfThePassesToTheBit) {
  const config::Job job = job_with("0", 8, 2);
  on_ranks(daemon_, job, [&](Replica& replica) {
    golden::fill(replica.network());
    auto planned = model::Network::plan(replica.network().config());
    ASSERT_TRUE(planned);
    model::HeapAllocator heap;
    ASSERT_TRUE(planned->bind(heap));
    planned->initialise(0);
    golden::fill(*planned);
    GoldenBatches batches(job, 1);
    std::vector<float> want(planned->parameters_flat().size());
    for (int k = 0; k < 2; ++k) {
      const data::Batch batch = batches.of(0, 0, k);
      const auto n = static_cast<size_t>(batch.n);
      ASSERT_TRUE(planned->forward_train({batch.images, n * kShape.elements()}, {batch.labels, n}));
      ASSERT_TRUE(planned->backward({}, 0.5F));
      const float* gradient = planned->gradient_bucket(0).data();
      for (size_t i = 0; i < want.size(); ++i) want[i] += gradient[i];
    }

    client::Stepper sut(replica);
    ASSERT_TRUE(step(sut, batches, 0, replica, 0.0));

    ASSERT_GT(replica.network().bucket_count(), 2u);
    const float* got = replica.network().gradient_bucket(0).data();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << i;
  });
}

}  // namespace
}  // namespace npu::train
