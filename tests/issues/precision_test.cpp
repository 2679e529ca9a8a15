// Training in fp16 where it is known to break.
#include <gmock/gmock.h>

#include <cmath>

#include "client/train/loss_scale.hpp"
#include "tests/train/train_ranks.hpp"

namespace npu::train {
namespace {

using testing::Each;
using testing::Truly;

// tensorflow/models PR#4207: ResNet v1 in fp16 gives NaN without a suitable scale.
using B32 = TrainTest;

TEST_F(B32, DynamicScaleKeepsTheWeightsFiniteAtALargeRate) {
  const config::Job job =
      small_job({.more = "precision: {amp: true, loss_scale: dynamic, init_scale: 16777216}\n"});
  std::vector<float> weights;
  std::vector<double> losses;
  int skipped = 0;
  on_ranks(daemon_, job, [&](Replica& replica) {
    GoldenBatches batches(job, 16);
    client::Stepper sut(replica, client::initial_scaler(job.precision));
    for (int s = 0; s < 16; ++s) {
      const auto metrics = step(sut, batches, s, replica, 1.0);
      ASSERT_TRUE(metrics) << metrics.error().message;
      if (replica.rank() != 0) continue;
      losses.push_back(metrics->loss);
      skipped += metrics->skipped ? 1 : 0;
    }
    if (replica.rank() != 0) return;
    const auto flat = replica.network().parameters_flat();
    weights.assign(flat.begin(), flat.end());
  });
  EXPECT_GT(skipped, 0) << "the first scale is too large";
  EXPECT_LT(skipped, 16) << "it comes down";
  EXPECT_THAT(losses, Each(Truly([](double loss) { return std::isfinite(loss); })));
  EXPECT_THAT(weights, Each(Truly([](float weight) { return std::isfinite(weight); })));
}

}  // namespace
}  // namespace npu::train
