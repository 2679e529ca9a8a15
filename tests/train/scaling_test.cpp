// Loss scaling, the fp16 wire and clipping on real ranks: which steps are skipped and on whom, what
// the gradients become, and that the bits depend on nothing they should not.
#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <mutex>

#include "client/train/stepper.hpp"
#include "train_ranks.hpp"

namespace npu::train {
namespace {

using client::Stepper;
using model::GradScalerState;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kRate = 0.05;

/// Four images a rank.
config::Job job_with(const std::string& devices, const std::string& more = "",
                     const std::string& collectives = "") {
  const int ranks = devices[2] - '0' + 1;
  return small_job(
      {.devices = devices, .batch = 4 * ranks, .collectives = collectives, .more = more});
}

constexpr const char* kFp16 = ", allreduce_dtype: fp16";

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

/// What a rank saw of one step.
struct Seen {
  bool skipped = false;
  double scale = 0;
  bool parameters_moved = false, momentum_moved = false, buffers_moved = false;
};

/// A step, with the same batch in each of its passes.
Result<client::StepMetrics> run(Stepper& stepper, const data::Batch& batch, int passes = 1) {
  for (int i = 0; i < passes; ++i) NPU_TRY_VOID(stepper.pass(batch));
  return stepper.finish(kRate);
}

Seen watch(Stepper& sut, Replica& replica, const data::Batch& batch) {
  model::Network& network = replica.network();
  const auto parameters = copy_of(network.parameters_flat());
  const auto momentum = copy_of(network.momentum_flat());
  const auto buffers = copy_of(network.bn_buffers());
  const auto metrics = run(sut, batch, replica.job().train.accumulate);
  EXPECT_TRUE(metrics) << metrics.error().message;
  if (!metrics) return {};
  const auto moved = [](const std::vector<float>& before, std::span<const float> now) {
    return std::memcmp(before.data(), now.data(), now.size_bytes()) != 0;
  };
  return {metrics->skipped, metrics->scale, moved(parameters, network.parameters_flat()),
          moved(momentum, network.momentum_flat()), moved(buffers, network.bn_buffers())};
}

class ScalingTest : public TrainTest {
 protected:
  struct Outcome {
    std::vector<uint64_t> digests;                       // by rank
    std::vector<std::optional<GradScalerState>> scaler;  // by rank
    std::vector<double> scales;                          // rank 0's, by step
    std::vector<bool> skipped;                           // rank 0's, by step
  };

  /// `steps` steps of every rank; `spoil` may change a batch before it is used.
  Outcome train(const config::Job& job, int steps, const std::optional<GradScalerState>& scaler,
                const std::function<void(data::Batch&, int step, int rank)>& spoil = {}) {
    Outcome outcome;
    outcome.digests.resize(static_cast<size_t>(job.world()));
    outcome.scaler.resize(static_cast<size_t>(job.world()));
    on_ranks(daemon_, job, [&](Replica& replica) {
      const auto rank = static_cast<size_t>(replica.rank());
      GoldenBatches batches(job, steps);
      Stepper sut(replica, scaler);
      for (int s = 0; s < steps; ++s) {
        data::Batch batch = batches.of(s, replica.rank(), 0);
        if (spoil) spoil(batch, s, replica.rank());
        const Seen seen = watch(sut, replica, batch);
        EXPECT_EQ(seen.parameters_moved, !seen.skipped) << "step " << s << " rank " << rank;
        EXPECT_EQ(seen.momentum_moved, !seen.skipped) << "step " << s << " rank " << rank;
        if (rank == 0) {
          outcome.scales.push_back(seen.scale);
          outcome.skipped.push_back(seen.skipped);
        }
      }
      ASSERT_TRUE(replica.share_buffers());
      outcome.digests[rank] = replica.digest();
      outcome.scaler[rank] = sut.scaler();
    });
    return outcome;
  }

  /// The error of the first step that fails, the same on every rank.
  Error failure(const config::Job& job, int steps, const std::optional<GradScalerState>& scaler,
                const std::function<void(data::Batch&, int step, int rank)>& spoil) {
    std::mutex mutex;
    std::vector<Error> errors;
    int failed_at = -1;
    on_ranks(daemon_, job, [&](Replica& replica) {
      GoldenBatches batches(job, steps);
      Stepper sut(replica, scaler);
      for (int s = 0; s < steps; ++s) {
        data::Batch batch = batches.of(s, replica.rank(), 0);
        spoil(batch, s, replica.rank());
        const auto got = run(sut, batch);
        if (got) continue;
        const std::lock_guard lock(mutex);
        errors.push_back(got.error());
        EXPECT_TRUE(failed_at == -1 || failed_at == s);
        failed_at = s;
        return;
      }
    });
    EXPECT_EQ(errors.size(), static_cast<size_t>(job.world()));
    if (errors.empty()) return {};
    for (const Error& error : errors) EXPECT_EQ(error.message, errors.front().message);
    EXPECT_EQ(failed_at, steps - 1);
    return errors.front();
  }
};

void spoil_rank_2_at_step_1(data::Batch& batch, int step, int rank) {
  if (rank == 2 && step == 1) batch.images[5] = std::numeric_limits<float>::infinity();
}

TEST_F(ScalingTest, InfinityOnOneRankSkipsTheStepOnAll) {
  for (const char* wire : {"", kFp16}) {
    const Outcome got = train(job_with("0-3", "", wire), 3, model::dynamic_scale(256, 2000),
                              spoil_rank_2_at_step_1);
    EXPECT_THAT(got.skipped, ElementsAre(false, true, false));
    EXPECT_THAT(got.scales, ElementsAre(256, 256, 128));
    EXPECT_THAT(got.digests, Each(got.digests[0]));
    EXPECT_THAT(got.scaler, Each(got.scaler[0]));
    ASSERT_TRUE(got.scaler[0]);
    EXPECT_EQ(got.scaler[0]->scale, 128);
    EXPECT_EQ(got.scaler[0]->skipped_steps, 1);
    EXPECT_EQ(got.scaler[0]->growth_tracker, 1);
  }
}

TEST_F(ScalingTest, StaticScaleSkipsTooButStays) {
  const Outcome got = train(job_with("0-3"), 3, model::static_scale(1024), spoil_rank_2_at_step_1);
  EXPECT_THAT(got.skipped, ElementsAre(false, true, false));
  EXPECT_THAT(got.scales, Each(1024));
  EXPECT_THAT(got.digests, Each(got.digests[0]));
}

TEST_F(ScalingTest, RunningStatisticsMoveInASkippedStep) {
  const config::Job job = job_with("0-1");
  on_ranks(daemon_, job, [&](Replica& replica) {
    GoldenBatches batches(job, 1);
    data::Batch batch = batches.of(0, replica.rank(), 0);
    if (replica.rank() == 1) batch.images[0] = std::numeric_limits<float>::infinity();
    Stepper sut(replica, model::static_scale(1024));
    const Seen seen = watch(sut, replica, batch);
    EXPECT_TRUE(seen.skipped);
    EXPECT_TRUE(seen.buffers_moved);
  });
}

TEST_F(ScalingTest, WithoutAScalerInfinityEndsTheJobAndIsNamed) {
  for (const char* more : {"", "optimizer: {clip_grad_norm: 1}\n"}) {
    const Error got = failure(job_with("0-3", more), 2, std::nullopt, spoil_rank_2_at_step_1);
    EXPECT_EQ(got.exit, Exit::kBadData);
    EXPECT_THAT(got.message, HasSubstr("training diverged in step "));
    EXPECT_THAT(got.message, HasSubstr("; the gradient of 'fc."));
    EXPECT_THAT(got.message, HasSubstr("' holds NaN"));
  }
}

TEST_F(ScalingTest, FiftySkipsInARowEndTheJob) {
  const config::Job job = job_with("0-1");
  const Error got =
      failure(job, 51, model::dynamic_scale(65536, 2000), [](data::Batch& batch, int step, int) {
        if (step > 0) batch.images[0] = std::nanf("");
      });
  EXPECT_EQ(got.exit, Exit::kBadData);
  EXPECT_THAT(got.message,
              HasSubstr("gradients non-finite for 50 consecutive steps: the gradient of 'fc."));
  EXPECT_THAT(got.message, HasSubstr("the loss scale (now 1)"));
}

TEST_F(ScalingTest, OverflowOnTheWireIsNamedAsInfinity) {
  const config::Job job = job_with("0-1", "precision: {max_skips: 3}\n", kFp16);
  const Error got = failure(job, 3, model::static_scale(0x1p24), [](data::Batch&, int, int) {});
  EXPECT_THAT(got.message, HasSubstr("gradients non-finite for 3 consecutive steps"));
  EXPECT_THAT(got.message, HasSubstr("' holds infinity"));
}

TEST_F(ScalingTest, DynamicScaleFallsUntilTheWireHoldsTheGradients) {
  const Outcome got = train(job_with("0-3", "", kFp16), 14, model::dynamic_scale(0x1p24, 2000));
  ASSERT_EQ(got.scales.size(), 14u);
  EXPECT_TRUE(got.skipped.front());
  EXPECT_FALSE(got.skipped.back());
  for (size_t s = 1; s < got.scales.size(); ++s) {
    EXPECT_EQ(got.scales[s], got.skipped[s - 1] ? got.scales[s - 1] / 2 : got.scales[s - 1]);
  }
  EXPECT_THAT(got.digests, Each(got.digests[0]));
}

TEST_F(ScalingTest, PowerOfTwoScaleDoesNotChangeTheBits) {
  // fp32 everywhere: what is scaled and unscaled by a power of two is what it was.
  const config::Job job = job_with("0-1");
  const Outcome plain = train(job, 3, std::nullopt);
  const Outcome scaled = train(job, 3, model::static_scale(1024));
  EXPECT_EQ(scaled.digests, plain.digests);
  config::Job accumulating = job;
  accumulating.train.accumulate = 2;
  EXPECT_EQ(train(accumulating, 3, model::static_scale(1024)).digests,
            train(accumulating, 3, std::nullopt).digests);
  const config::Job clipped = job_with("0-1", "optimizer: {clip_grad_norm: 0.1}\n");
  EXPECT_EQ(train(clipped, 3, model::static_scale(1024)).digests,
            train(clipped, 3, std::nullopt).digests);
}

TEST_F(ScalingTest, ScalerThatWasSavedGoesOnAsIfNothingHappened) {
  const config::Job job = job_with("0-1", "", kFp16);
  const GradScalerState start = model::dynamic_scale(0x1p22, 2);
  const Outcome straight = train(job, 6, start);
  Outcome resumed;
  on_ranks(daemon_, job, [&](Replica& replica) {
    GoldenBatches batches(job, 6);
    std::optional<GradScalerState> saved = start;
    for (int s = 0; s < 6; s += 3) {
      Stepper sut(replica, saved);
      for (int i = s; i < s + 3; ++i) {
        ASSERT_TRUE(run(sut, batches.of(i, replica.rank(), 0)));
      }
      saved = sut.scaler();
    }
    ASSERT_TRUE(replica.share_buffers());
    if (replica.rank() == 0) {
      resumed.digests = {replica.digest()};
      resumed.scaler = {saved};
    }
  });
  ASSERT_EQ(resumed.digests.size(), 1u);
  EXPECT_EQ(resumed.digests[0], straight.digests[0]);
  EXPECT_EQ(resumed.scaler[0], straight.scaler[0]);
}

TEST_F(ScalingTest, EightRanksOf40000AverageTo40000) {
  const config::Job job = job_with("0-7", "", ", bucket_bytes: 64KiB, allreduce_dtype: fp16");
  on_ranks(daemon_, job, [](Replica& replica) {
    model::Network& network = replica.network();
    client::GradientReducer sut(network, replica.world(), replica.collective_options(),
                                ReduceOp::kMean, replica.wire());
    const size_t buckets = network.bucket_count();
    ASSERT_GT(buckets, 1u);
    sut.begin_pass();
    for (size_t i = 0; i < buckets; ++i) {
      for (float& value : network.gradient_bucket(i)) value = 40000;
      // Values that a half cannot hold.
      if (i + 1 == buckets)
        network.metrics_slot()[0] = 100'001 + static_cast<float>(replica.rank());
      sut.submit(i);
    }
    ASSERT_TRUE(sut.check());
    for (size_t i = 0; i < buckets; ++i) {
      const auto finite = sut.wait(i);
      ASSERT_TRUE(finite) << finite.error().message;
      EXPECT_TRUE(*finite);
    }
    EXPECT_EQ(network.metrics_slot()[0], 100'004.5F);
    network.metrics_slot()[0] = 40000;
    for (size_t i = 0; i < buckets; ++i) EXPECT_THAT(network.gradient_bucket(i), Each(40000));
  });
}

TEST_F(ScalingTest, NeitherAlgorithmNorBucketsChangeTheBits) {
  const auto digest = [&](const std::string& collectives, const std::string& more = "") {
    const Outcome got = train(job_with("0-3", more, collectives), 3, std::nullopt);
    EXPECT_THAT(got.digests, Each(got.digests[0]));
    return got.digests[0];
  };
  const std::string clip = "optimizer: {clip_grad_norm: 0.1}\n";
  const std::string half = kFp16;
  const uint64_t on_half = digest(half);
  const uint64_t clipped = digest("", clip);
  const uint64_t both = digest(half, clip);
  for (const std::string& variant :
       {std::string(", algorithm: ring"), std::string(", algorithm: direct, bucket_bytes: 16KiB"),
        std::string(", algorithm: ring, bucket_bytes: 64KiB")}) {
    EXPECT_EQ(digest(half + variant), on_half) << variant;
    EXPECT_EQ(digest(variant, clip), clipped) << variant;
    EXPECT_EQ(digest(half + variant, clip), both) << variant;
  }
  const uint64_t plain = digest("");
  EXPECT_NE(on_half, plain) << "the test can tell a half wire from a full one";
  EXPECT_NE(clipped, plain);
  EXPECT_NE(both, on_half);
  EXPECT_EQ(digest("", "optimizer: {clip_grad_norm: 1000}\n"), plain) << "nothing to clip";
}

TEST_F(ScalingTest, HalfWireStaysCloseToTheFullOne) {
  Tensors full, half;
  for (const bool fp16 : {false, true}) {
    const config::Job job = job_with("0-3", "", fp16 ? kFp16 : "");
    on_ranks(daemon_, job, [&](Replica& replica) {
      GoldenBatches batches(job, 1);
      Stepper sut(replica, model::static_scale(1024));
      ASSERT_TRUE(run(sut, batches.of(0, replica.rank(), 0)));
      if (replica.rank() != 0) return;
      model::Network& network = replica.network();
      for (size_t i = 0; i < network.state().size(); ++i) {
        const model::StateEntry& entry = network.state()[i];
        if (entry.kind != model::StateKind::kParameter) continue;
        std::vector<float>& values = (fp16 ? half : full)[entry.name];
        network.export_gradient(i, values = std::vector<float>(entry.count));
      }
    });
  }
  ASSERT_FALSE(full.empty());
  for (const auto& [name, want] : full) {
    double difference = 0, norm = 0;
    for (size_t k = 0; k < want.size(); ++k) {
      const auto value = static_cast<double>(want[k]);
      difference += std::pow(static_cast<double>(half[name][k]) - value, 2);
      norm += value * value;
    }
    // Each input and the mean are rounded to 11 bits.
    EXPECT_LE(std::sqrt(difference), 0x1p-9 * std::sqrt(norm)) << name;
  }
}

TEST_F(ScalingTest, ClippingScalesTheWholeGradientToTheNorm) {
  // The first step from zero momentum without decay: the momentum is the gradient.
  const std::string text = "optimizer: {weight_decay: 0, clip_grad_norm: ";
  std::vector<std::vector<float>> momentum;
  for (const char* limit : {"0", "0.25"}) {
    const config::Job job = job_with("0-1", text + limit + "}\n");
    on_ranks(daemon_, job, [&](Replica& replica) {
      GoldenBatches batches(job, 1);
      Stepper sut(replica);
      ASSERT_TRUE(run(sut, batches.of(0, replica.rank(), 0)));
      if (replica.rank() == 0) momentum.push_back(copy_of(replica.network().momentum_flat()));
    });
  }
  ASSERT_EQ(momentum.size(), 2u);
  double squares = 0;
  for (const float g : momentum[0]) squares += static_cast<double>(g) * static_cast<double>(g);
  const double norm = std::sqrt(squares);
  ASSERT_GT(norm, 0.25) << "the test needs a gradient that is longer";
  const double factor = 0.25 / (norm + 1e-6);
  for (size_t k = 0; k < momentum[0].size(); ++k) {
    const double want = factor * static_cast<double>(momentum[0][k]);
    ASSERT_NEAR(static_cast<double>(momentum[1][k]), want, 1e-6 * std::fabs(want)) << k;
  }
}

}  // namespace
}  // namespace npu::train
