// What a job does when its store fails, when its trainer dies around a checkpoint, when what it
// resumes from is damaged, and when its replicas are not equal any more.
#include <gmock/gmock.h>

#include "tests/e2e/e2e_fixture.hpp"

namespace npu::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

bool has_failpoints() {
#ifdef NPU_NO_FAILPOINTS
  return false;
#else
  return true;
#endif
}

class StoreJobTest : public E2eTest {
 protected:
  void SetUp() override {
    if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  }

  /// `npu launch` with a private daemon that gets the failpoints, too.
  Outcome launch_with(const std::string& failpoints, const std::vector<std::string>& sets) {
    std::vector<std::string> args = {"launch", job(), "-o", "json"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return npu(args, {"NPU_FAILPOINTS=" + failpoints});
  }

  template <typename E>
  static std::vector<E> all(const std::vector<client::Event>& events) {
    std::vector<E> found;
    for (const auto& event : events) {
      if (const auto* e = std::get_if<E>(&event)) found.push_back(*e);
    }
    return found;
  }

  [[nodiscard]] std::vector<std::string> steps_on_disk(const std::string& run = "tiny") const {
    std::vector<std::string> names;
    std::error_code missing;
    const std::string dir = root_ + "/state/npud/" + std::to_string(::getuid()) + "/" + run;
    for (const auto& entry : std::filesystem::directory_iterator(dir, missing)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }

  std::string straight_digest(const std::vector<std::string>& more) {
    std::vector<std::string> sets = more;
    sets.emplace_back("name=straight");
    return done(sets).weights_digest;
  }
};

TEST_F(StoreJobTest, FailedCheckpointIsAWarningWhenALaterOneWorks) {
  const Outcome got = launch_with("ckpt.fallocate=errno:ENOSPC", {});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  const auto warnings = all<client::WarningEvent>(events);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].step, 8);
  EXPECT_THAT(warnings[0].message,
              AllOf(HasSubstr("checkpoint of step 8 failed: reserve"),
                    HasSubstr("No space left on device"), HasSubstr("training goes on")));
  const auto checkpoints = all<client::CheckpointEvent>(events);
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].step, 16);
  EXPECT_EQ(last<client::DoneEvent>(events)->verified, true);
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, straight_digest({}));
}

TEST_F(StoreJobTest, LastCheckpointThatFailsIsExit74AfterAllSteps) {
  const Outcome got = launch_with("ckpt.fsync=errno:EIO@every", {"checkpoint.every_steps=3"});
  EXPECT_EQ(got.code, 74) << got.err;
  const auto events = events_of(got.out);
  EXPECT_EQ(all<client::StepEvent>(events).size(), 16u);
  EXPECT_TRUE(all<client::DoneEvent>(events).empty());
  const auto warnings = all<client::WarningEvent>(events);
  ASSERT_GE(warnings.size(), 2u);
  EXPECT_THAT(warnings[0].message, Not(HasSubstr("degraded")));
  EXPECT_THAT(warnings[1].message, HasSubstr("degraded, 2 checkpoints in a row failed"));
  EXPECT_THAT(got.err, AllOf(HasSubstr("the last checkpoint, of step 16, could not be written"),
                             HasSubstr("Input/output error")));
  EXPECT_TRUE(steps_on_disk().empty());
  // With a disk that works the same launch makes it.
  EXPECT_EQ(launch({}).code, 0);
}

TEST_F(StoreJobTest, WriteThatFailsInTheMiddleLeavesTheCheckpointsAroundIt) {
  // A commit writes four files and LATEST: this is the second one's.
  const Outcome got =
      launch_with("ckpt.write=errno:EIO@7", {"checkpoint.every_steps=3", "train.epochs=1"});
  EXPECT_EQ(got.code, 0) << got.err;
  const auto warnings = all<client::WarningEvent>(events_of(got.out));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].step, 6);
  EXPECT_THAT(warnings[0].message, HasSubstr("the newest durable one is '"));
  EXPECT_THAT(steps_on_disk(), testing::ElementsAre("step-3", "step-8"));
}

/// One rank: what it committed is in the daemon's hands whatever becomes of it.
class TrainerJobTest : public StoreJobTest {
 protected:
  const std::vector<std::string> sets_ = {"devices=0", "checkpoint.every_steps=3",
                                          "train.epochs=1"};

  void expect_same_end(int64_t resumed_step) {
    const Outcome rest = launch(sets_);
    ASSERT_EQ(rest.code, 0) << rest.err;
    const auto events = events_of(rest.out);
    EXPECT_EQ(last<client::StartEvent>(events)->resumed_step, resumed_step);
    EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, straight_digest(sets_));
  }
};

TEST_F(TrainerJobTest, KilledWhileItFillsTheStageGoesOnFromTheOneBefore) {
  const Outcome got = launch_with("train.stage_half_filled=kill@2", sets_);
  EXPECT_EQ(got.code, 128 + SIGKILL) << got.err;
  EXPECT_THAT(steps_on_disk(), testing::ElementsAre("step-3"));
  expect_same_end(4);
}

TEST_F(TrainerJobTest, KilledBeforeItHandsOverGoesOnFromTheOneBefore) {
  const Outcome got = launch_with("train.before_commit=kill@2", sets_);
  EXPECT_EQ(got.code, 128 + SIGKILL) << got.err;
  EXPECT_THAT(steps_on_disk(), testing::ElementsAre("step-3"));
  expect_same_end(4);
}

TEST_F(TrainerJobTest, KilledWhileTheDaemonWritesGoesOnFromThatOne) {
  // The daemon is slow: the next steps run while it writes, and the rank dies at the hand-over of
  // the one after.
  const Outcome got = launch_with("ckpt.after_mkdir=sleep:200ms@2,train.stage_half_filled=kill@3",
                                  {"devices=0", "checkpoint.every_steps=2", "train.epochs=1"});
  EXPECT_EQ(got.code, 128 + SIGKILL) << got.err;
  EXPECT_THAT(steps_on_disk(), testing::ElementsAre("step-2", "step-4"));
}

TEST_F(StoreJobTest, DamagedNewestCheckpointIsSteppedOverAndSaid) {
  ASSERT_EQ(done({"checkpoint.every_steps=3", "train.stop_after_steps=6"}).steps, 6);
  const std::string model =
      root_ + "/state/npud/" + std::to_string(::getuid()) + "/tiny/step-6/model.safetensors";
  {
    std::fstream file(model, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
    ASSERT_TRUE(file.good()) << model;
  }
  const Outcome got = launch({"checkpoint.every_steps=3"});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto start = last<client::StartEvent>(events_of(got.out));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->resumed_step, 4);
  ASSERT_FALSE(start->warnings.empty());
  EXPECT_THAT(start->warnings[0],
              AllOf(HasSubstr("newer checkpoints were skipped: run 'tiny' step 6"),
                    HasSubstr("tensor '"), HasSubstr("is damaged")));
}

class ReplicaCheckTest : public StoreJobTest {};

TEST_F(ReplicaCheckTest, FlippedBitIsFoundAtTheNextCheckWithRankAndTensor) {
  const Outcome got =
      launch_with("rank3/train.flip_a_bit=garbage@4", {"train.check_replicas_every=3"});
  EXPECT_EQ(got.code, 74) << got.err;
  EXPECT_THAT(got.err,
              testing::ContainsRegex("replica check at step 6: rank 3's parameter '[a-z0-9.]+'"));
  EXPECT_THAT(got.err, HasSubstr("differs from that of the 3 other ranks that agree"));
  EXPECT_TRUE(steps_on_disk().empty());
}

TEST_F(ReplicaCheckTest, FlippedBitOfRankZeroIsRankZeros) {
  const Outcome got =
      launch_with("rank0/train.flip_a_bit=garbage@4", {"train.check_replicas_every=3"});
  EXPECT_EQ(got.code, 74) << got.err;
  EXPECT_THAT(got.err, HasSubstr("replica check at step 6: rank 0's parameter '"));
}

TEST_F(ReplicaCheckTest, WithoutChecksACheckpointFindsItAndNothingIsSaved) {
  const Outcome got = launch_with("rank2/train.flip_a_bit=garbage@6", {"checkpoint.every_steps=4"});
  EXPECT_EQ(got.code, 74) << got.err;
  EXPECT_THAT(got.err, HasSubstr("replica check at step 8: rank 2's "));
  EXPECT_THAT(steps_on_disk(), testing::ElementsAre("step-4"));
  // The next launch goes on from the one before, to the same end as a run that was not disturbed.
  const std::string straight = straight_digest({});
  const client::DoneEvent end = done({});
  EXPECT_EQ(end.weights_digest, straight);
}

// A damaged memory is no mistake of the job: the next attempt has another.
TEST_F(ReplicaCheckTest, DamagedReplicaIsRestartedToTheSameBits) {
  const std::string straight = straight_digest({"checkpoint.every_steps=4"});
  // At the thirteenth step of an attempt: the next one has four left.
  const Outcome got = npu({"launch", job(), "-o", "json", "--set", "checkpoint.every_steps=4",
                           "--max-restarts", "1", "--restart-backoff", "0.1"},
                          {"NPU_FAILPOINTS=rank2/train.flip_a_bit=garbage@13"});
  EXPECT_EQ(got.code, 0) << got.err;
  const auto events = events_of(got.out);
  const auto restarts = all<client::RestartEvent>(events);
  ASSERT_EQ(restarts.size(), 1u) << got.err;
  EXPECT_THAT(restarts[0].reason, HasSubstr("replica check at step 16: rank 2's"));
  EXPECT_EQ(restarts[0].step, 12);
  const auto end = last<client::DoneEvent>(events);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->weights_digest, straight);
}

TEST_F(ReplicaCheckTest, ChecksChangeNoBitOfASoundJob) {
  for (const char* buffers : {"rank0", "local", "mean"}) {
    const std::string mode = std::string("model.bn_buffers=") + buffers;
    const std::string name = std::string("name=checked-") + buffers;
    const client::DoneEvent plain =
        done({mode, "train.epochs=1", "name=plain-" + std::string(buffers)});
    const client::DoneEvent sut =
        done({mode, name, "train.epochs=1", "train.check_replicas_every=1", "train.ema_decay=0.9"});
    const client::DoneEvent same =
        done({mode, name + "2", "train.epochs=1", "train.ema_decay=0.9"});
    EXPECT_EQ(sut.weights_digest, plain.weights_digest) << buffers;
    EXPECT_EQ(same.weights_digest, plain.weights_digest) << buffers;
  }
}

}  // namespace
}  // namespace npu::e2e
