// Mixed precision, batch norm over ranks, the average of the weights and the tf profile at once.
#include <gmock/gmock.h>

#include "client/train/loss_scale.hpp"
#include "train_ranks.hpp"

namespace npu::train {
namespace {

using testing::Each;

/// What a rank ends with.
struct End {
  uint64_t weights = 0;
  std::vector<float> average;
  std::optional<model::GradScalerState> scaler;
  bool operator==(const End&) const = default;
};

class TogetherTest : public TrainTest {
 protected:
  static constexpr int kSteps = 4;

  /// By rank, after kSteps steps.
  std::vector<End> train(const config::Job& job) {
    std::vector<End> ends(static_cast<size_t>(job.world()));
    on_ranks(daemon_, job, [&](Replica& replica) {
      GoldenBatches batches(job, kSteps);
      client::Stepper sut(replica, client::initial_scaler(job.precision));
      for (int s = 0; s < kSteps; ++s) {
        const auto metrics = step(sut, batches, s, replica, 0.05);
        ASSERT_TRUE(metrics) << metrics.error().message;
        EXPECT_TRUE(std::isfinite(metrics->loss)) << "step " << s;
        EXPECT_FALSE(metrics->skipped) << "step " << s;
      }
      ASSERT_TRUE(replica.share_buffers());
      End& end = ends[static_cast<size_t>(replica.rank())];
      end.weights = replica.digest();
      end.scaler = sut.scaler();
      ASSERT_NE(replica.average(), nullptr);
      const auto average = replica.average()->parameters();
      end.average.assign(average.begin(), average.end());
    });
    return ends;
  }
};

TEST_F(TogetherTest, RanksAndRunsEndWithTheSameFiniteBits) {
  for (const char* dtype : {"fp16", "bf16"}) {
    const config::Job job = small_job(
        {.model = ", sync_bn: true",
         .train = ", ema_decay: 0.75",
         .collectives = ", bucket_bytes: 64KiB",
         .more = std::string("profile: tf\nprecision: {amp: true, loss_scale: 1024, dtype: ") +
                 dtype + "}\n"});
    const std::vector<End> first = train(job);
    EXPECT_THAT(first, Each(first[0])) << dtype;
    EXPECT_THAT(first[0].average, Each(testing::Truly([](float v) { return std::isfinite(v); })));
    EXPECT_EQ(train(job), first) << dtype;

    // Each of the four has a say: the test can tell.
    config::Job other = job;
    other.profile = config::Profile::kPytorch;
    EXPECT_NE(train(other)[0].weights, first[0].weights) << dtype;
    other = job;
    other.model.sync_bn = false;
    EXPECT_NE(train(other)[0].weights, first[0].weights) << dtype;
    other = job;
    other.precision.amp = false;
    EXPECT_NE(train(other)[0].weights, first[0].weights) << dtype;
    other = job;
    other.train.ema_decay = 0.5;
    EXPECT_NE(train(other)[0].average, first[0].average) << dtype;
  }
}

}  // namespace
}  // namespace npu::train
