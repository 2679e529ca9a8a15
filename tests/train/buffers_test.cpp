// Whose running statistics are validated and saved: rank 0's, each rank's own, or their mean.
#include "train_ranks.hpp"

namespace npu::train {
namespace {

struct Buffers {
  std::vector<float> trained, validated, left;
};

class BuffersTest : public TrainTest {
 protected:
  /// Of each rank: after two steps, in validation, and after it and a checkpoint.
  std::vector<Buffers> run(const std::string& bn_buffers) {
    const config::Job job =
        small_job({.devices = "0-2", .batch = 12, .model = ", bn_buffers: " + bn_buffers});
    std::vector<Buffers> all(3);
    on_ranks(daemon_, job, [&](Replica& replica) {
      golden::fill(replica.network());
      GoldenBatches batches(job, 2);
      client::Stepper stepper(replica);
      for (int s = 0; s < 2; ++s) ASSERT_TRUE(step(stepper, batches, s, replica, 0.1));
      Buffers& mine = all[static_cast<size_t>(replica.rank())];
      const auto now = [&] {
        const auto buffers = replica.network().bn_buffers();
        return std::vector<float>(buffers.begin(), buffers.end());
      };
      mine.trained = now();
      ASSERT_TRUE(replica.enter_validation());
      mine.validated = now();
      replica.leave_validation();
      client::TrainState state;
      state.global_step = 2;
      ASSERT_TRUE(replica.commit(state, false));
      Discard discard;
      const auto durable = replica.emit_commits(discard, true);
      EXPECT_TRUE(durable) << durable.error().message;  // the daemon compares the replicas
      mine.left = now();
    });
    return all;
  }

 private:
  class Discard final : public client::EventSink {
   public:
    void on_event(const client::Event&) override {}
  };
};

TEST_F(BuffersTest, Rank0sReplaceTheOthers) {
  const auto got = run("rank0");
  EXPECT_NE(got[1].trained, got[0].trained);
  for (const Buffers& rank : got) {
    EXPECT_EQ(rank.validated, got[0].trained);
    EXPECT_EQ(rank.left, got[0].trained);
  }
}

TEST_F(BuffersTest, LocalOnesComeBackAfterAValidationWithRank0s) {
  const auto got = run("local");
  EXPECT_NE(got[1].trained, got[0].trained);
  for (const Buffers& rank : got) {
    EXPECT_EQ(rank.validated, got[0].trained);
    EXPECT_EQ(rank.left, rank.trained);
  }
}

TEST_F(BuffersTest, MeanIsTakenOnce) {
  const auto got = run("mean");
  ASSERT_FALSE(got[0].trained.empty());
  for (size_t i = 0; i < got[0].trained.size(); ++i) {
    const double mean =
        (static_cast<double>(got[0].trained[i]) + got[1].trained[i] + got[2].trained[i]) / 3;
    EXPECT_NEAR(got[0].validated[i], mean, 1e-6 * std::max(1.0, std::abs(mean))) << i;
  }
  for (const Buffers& rank : got) {
    EXPECT_EQ(rank.validated, got[0].validated);
    EXPECT_EQ(rank.left, got[0].validated);
  }
}

}  // namespace
}  // namespace npu::train
