// What a job computes does not depend on how it is run: twice, by another algorithm, with other
// buckets or engine threads the weights are the same bits; any number of devices trains it.
#include <gmock/gmock.h>

#include <set>

#include "e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using JobTest = E2eTest;

const char* const kFresh = "checkpoint.resume=never";

TEST_F(JobTest, LastLineIsTheDoneRecord) {
  const client::DoneEvent got = done({});
  EXPECT_EQ(got.epochs, 2);
  EXPECT_EQ(got.steps, 16);
  EXPECT_EQ(got.skipped_steps, 0);
  EXPECT_EQ(got.weights_digest.size(), 16u);
  EXPECT_TRUE(std::filesystem::is_directory(got.checkpoint)) << got.checkpoint;
}

TEST_F(JobTest, TrainingReducesItsGradientsInPlace) {
  const Outcome got = launch({kFresh});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, testing::HasSubstr("\"staged_copies\":0,"));
}

TEST_F(JobTest, EveryCheckpointSaysHowLongItHeldTheJobUp) {
  const Outcome got = launch({kFresh, "checkpoint.every_steps=3"});
  ASSERT_EQ(got.code, 0) << got.err;
  std::set<int64_t> steps;
  for (const client::Event& event : events_of(got.out)) {
    const auto* checkpoint = std::get_if<client::CheckpointEvent>(&event);
    if (checkpoint == nullptr) continue;
    steps.insert(checkpoint->step);
    EXPECT_GT(checkpoint->stall_ms, 0) << "step " << checkpoint->step;
    EXPECT_GT(checkpoint->durable_ms, 0) << "step " << checkpoint->step;
  }
  EXPECT_EQ(steps, (std::set<int64_t>{3, 6, 8, 9, 12, 15, 16}));  // 8 steps an epoch
}

TEST_F(JobTest, TwoRunsGiveTheSameBits) {
  const std::string first = done({kFresh}).weights_digest;
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(done({kFresh}).weights_digest, first);
  EXPECT_NE(done({kFresh, "seed=8"}).weights_digest, first);
}

TEST_F(JobTest, AlgorithmAndBucketsDoNotChangeABit) {
  const std::string ring = done({kFresh, "collectives.algorithm=ring"}).weights_digest;
  ASSERT_FALSE(ring.empty());
  EXPECT_EQ(done({kFresh, "collectives.algorithm=direct"}).weights_digest, ring);
  EXPECT_EQ(done({kFresh, "collectives.bucket_bytes=16KiB"}).weights_digest, ring);
  EXPECT_EQ(done({kFresh, "collectives.algorithm=ring", "collectives.bucket_bytes=100KiB"})
                .weights_digest,
            ring);
}

TEST_F(JobTest, EngineThreadsDoNotChangeABit) {
  std::map<std::string, std::string> digests;
  for (const char* threads : {"1", "2", "4"}) {
    const test::DaemonProcess daemon({"--engine-threads", threads});
    use_daemon(daemon.socket());
    for (const char* algorithm : {"ring", "direct"}) {
      const Outcome got = launch({std::string("collectives.algorithm=") + algorithm, kFresh});
      ASSERT_EQ(got.code, 0) << got.err;
      const auto events = events_of(got.out);
      EXPECT_EQ(last<client::StartEvent>(events)->daemon, daemon.socket());
      digests[std::string(threads) + algorithm] = last<client::DoneEvent>(events)->weights_digest;
    }
  }
  const std::string first = digests["1ring"];
  ASSERT_FALSE(first.empty());
  for (const auto& [how, digest] : digests) EXPECT_EQ(digest, first) << how;
}

TEST_F(JobTest, TrainsOnAnyNumberOfDevices) {
  for (const char* devices : {"0", "0-1", "0-3", "0-7", "2,5"}) {
    const Outcome got = launch({kFresh, std::string("devices=") + devices});
    ASSERT_EQ(got.code, 0) << devices << ": " << got.err;
    const auto events = events_of(got.out);
    int epochs = 0;
    for (const auto& event : events) {
      const auto* epoch = std::get_if<client::EpochEvent>(&event);
      if (epoch == nullptr) continue;
      ++epochs;
      EXPECT_EQ(epoch->val_samples, 100) << devices;
      EXPECT_TRUE(std::isfinite(epoch->train_loss) && std::isfinite(epoch->val_loss)) << devices;
    }
    EXPECT_EQ(epochs, 2) << devices;
    const auto end = last<client::DoneEvent>(events);
    ASSERT_TRUE(end) << devices;
    EXPECT_EQ(end->steps, 16) << devices;
  }
}

}  // namespace
}  // namespace npu::e2e
