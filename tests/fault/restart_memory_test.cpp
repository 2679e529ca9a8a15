// `checkpoint.memory_every_steps`: a job whose ranks die goes on from what the daemon kept in
// memory, to the bits of a run that nothing happened to.
#include "restart_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kKept = "\"type\":\"memory_checkpoint\"";

class MemoryRestartTest : public RestartFixture {
 protected:
  /// 48 steps, every third in memory, nothing on the disk; or, with `disk`, every eighth there.
  static std::vector<std::string> sets(bool disk) {
    return {"train.epochs=6", "checkpoint.memory_every_steps=3",
            disk ? "checkpoint.every_epochs=1" : "checkpoint.every_epochs=0"};
  }

  std::string calm_digest(std::vector<std::string> sets) {
    sets.emplace_back("name=straight");
    return done(sets).weights_digest;
  }

  [[nodiscard]] std::vector<std::string> on_disk(const std::string& run = "tiny") const {
    std::vector<std::string> names;
    std::error_code missing;
    const std::string dir = root_ + "/state/npud/" + std::to_string(::getuid()) + "/" + run;
    for (const auto& entry : std::filesystem::directory_iterator(dir, missing))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  static std::string up_to(Background& launch, const std::string& text) {
    std::string said = launch.read_until(text);
    EXPECT_THAT(said, HasSubstr(text));
    return said;
  }

  /// Kills a rank and reads on to the end.
  Story kill_and_finish(Background& launch, int rank, std::string already) {
    const pid_t victim = rank_process(launch, rank);
    EXPECT_NE(victim, 0);
    if (victim != 0) ::kill(victim, SIGKILL);
    return end_of(launch, std::move(already));
  }
};

/// One restart; it went on from a checkpoint in memory that is as new as any that was reported.
void expect_from_memory(const Story& story) {
  ASSERT_EQ(story.restarts().size(), 1u) << story.err;
  ASSERT_EQ(story.starts().size(), 2u);
  const client::StartEvent again = story.starts()[1];
  EXPECT_THAT(again.resumed_from.value_or(""), StartsWith("memory:tiny/step-"));
  EXPECT_EQ(again.resumed_step.value_or(0), story.restarts()[0].step + 1);
  EXPECT_EQ(story.restarts()[0].step % 3, 0);
  int64_t reported = 0;
  for (const client::Event& event : story.events) {
    if (std::holds_alternative<client::RestartEvent>(event)) break;
    if (const auto* kept = std::get_if<client::MemoryCheckpointEvent>(&event))
      reported = kept->step;
  }
  EXPECT_GT(reported, 0);
  EXPECT_GE(story.restarts()[0].step, reported);
}

TEST_F(MemoryRestartTest, KilledRankCostsAFewStepsAndTheDiskIsNotTouched) {
  const std::string wanted = calm_digest(sets(false));
  Background launch(env_, job(), sets(false), restarting(3));
  const Story story = kill_and_finish(launch, 2, up_to(launch, kKept));
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  expect_from_memory(story);
  EXPECT_THAT(on_disk(), IsEmpty());
  EXPECT_EQ(recorded_steps(), first_steps(kSteps));
}

TEST_F(MemoryRestartTest, BetweenCheckpointsOnDiskTheNewestOfBothIsResumed) {
  const std::string wanted = calm_digest(sets(true));
  Background launch(env_, job(), sets(true), restarting(3));
  std::string said = up_to_a_checkpoint(launch);
  said += up_to(launch, kKept);
  const Story story = kill_and_finish(launch, 0, said);
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  ASSERT_EQ(story.restarts().size(), 1u) << story.err;
  const int64_t step = story.restarts()[0].step;
  EXPECT_TRUE(step % 3 == 0 || step % 8 == 0) << step;
  EXPECT_GT(step, 8);
  EXPECT_EQ(story.starts()[1].resumed_step.value_or(0), step + 1);
  // BEST, LATEST and what rotation leaves are those of a job without a fault.
  EXPECT_EQ(on_disk(), on_disk("straight"));
  EXPECT_TRUE(story.dones()[0].verified.value_or(false));
}

TEST_F(MemoryRestartTest, DeathOfTheDaemonFallsBackToTheDisk) {
  std::vector<std::string> ends_with_it = sets(true);
  ends_with_it.emplace_back("collectives.reconnect=0");
  const std::string wanted = calm_digest(ends_with_it);
  Background launch(env_, job(), ends_with_it, restarting(3));
  std::string said = up_to_a_checkpoint(launch);
  said += up_to(launch, kKept);
  const auto daemons = launch.children("npud");
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
  const Story story = end_of(launch, said);
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  ASSERT_EQ(story.restarts().size(), 1u) << story.err;
  EXPECT_EQ(story.restarts()[0].step % 8, 0);
  EXPECT_THAT(story.starts()[1].resumed_from.value_or(""), Not(StartsWith("memory:")));
}

// Rank 0 dies each time behind its third commit: what it had committed before is progress, so one
// restart in a row is enough.
TEST_F(MemoryRestartTest, CheckpointInMemoryIsProgress) {
  const std::vector<std::string> often = {"checkpoint.memory_every_steps=2",
                                          "checkpoint.every_epochs=0"};
  const std::string wanted = calm_digest(often);
  env_.push_back("NPU_FAILPOINTS=rank0/train.after_commit=kill@3");
  Background launch(env_, job(), often, restarting(1));
  const Story story = end_of(launch, "");
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  EXPECT_GE(story.restarts().size(), 2u);
}

// The launcher is gone, too; the daemon is the system's.
TEST_F(MemoryRestartTest, NextLaunchResumesItAndAJobThatEndsWellLeavesNothing) {
  const std::string wanted = calm_digest(sets(false));
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  {
    Background launch(env_, job(), sets(false));
    (void)up_to(launch, kKept);
    ASSERT_EQ(::kill(rank_process(launch, 1), SIGKILL), 0);
    EXPECT_EQ(launch.wait(), 128 + SIGKILL);
  }
  const Outcome listed = npu({"ckpt", "ls", "tiny"});
  EXPECT_THAT(listed.out, HasSubstr("memory:tiny/step-")) << listed.err;
  const Outcome verified = npu({"ckpt", "verify", "tiny"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  // An evaluation is of what lasts.
  EXPECT_EQ(npu({"eval", job()}).code, 66);
  const Outcome next = launch(sets(false));
  EXPECT_EQ(next.code, 0) << next.err;
  const auto events = events_of(next.out);
  EXPECT_THAT(last<client::StartEvent>(events)->resumed_from.value_or(""),
              StartsWith("memory:tiny/step-"));
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, wanted);
  EXPECT_THAT(npu({"ckpt", "ls"}).out, Not(HasSubstr("memory:")));
}

TEST_F(MemoryRestartTest, FailureToKeepOneIsAWarningOnce) {
  const Outcome got = npu({"launch", job(), "-o", "json", "--set",
                           "checkpoint.memory_every_steps=2", "--set", "checkpoint.every_epochs=0"},
                          {"NPU_FAILPOINTS=ckpt.fallocate=errno:ENOSPC@every"});
  EXPECT_EQ(got.code, 0) << got.err;
  int warnings = 0;
  for (const client::Event& event : events_of(got.out)) {
    const auto* warning = std::get_if<client::WarningEvent>(&event);
    if (warning == nullptr) continue;
    ++warnings;
    EXPECT_EQ(warning->step, 2);
    EXPECT_THAT(warning->message, HasSubstr("checkpoint of step 2 in memory failed: reserve"));
  }
  EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace npu::e2e
