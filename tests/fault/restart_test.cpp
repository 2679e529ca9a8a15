// `npu launch --max-restarts`: whatever dies, the job goes on by itself to the bits of a run that
// nothing happened to; what would come again is not tried again (docs/design/015-restart.md).
#include "restart_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kHang{60'000};

class RestartTest : public RestartFixture {};

void expect_one_restart(const Story& story, const std::string& culprit) {
  ASSERT_EQ(story.restarts().size(), 1u) << story.err;
  const client::RestartEvent restart = story.restarts()[0];
  EXPECT_EQ(restart.attempt, 1);
  EXPECT_THAT(restart.reason, HasSubstr(culprit));
  ASSERT_EQ(story.starts().size(), 2u);
  ASSERT_TRUE(story.starts()[1].resumed_step);
  EXPECT_EQ(*story.starts()[1].resumed_step, restart.step + 1);
  EXPECT_GE(restart.step, 3);
  EXPECT_THAT(story.err,
              HasSubstr("npu launch: restart 1 in 0.1 s (1 of 3 without a new checkpoint): "));
}

TEST_F(RestartTest, KilledRankCostsARestartAndNoBit) {
  const std::string wanted = straight_digest();
  Background launch(env_, job(), often_, restarting(3));
  const std::string before = up_to_a_checkpoint(launch);
  const pid_t victim = rank_process(launch, 2);
  ASSERT_NE(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const Story story = end_of(launch, before);

  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  expect_one_restart(story, "rank 2 (pid " + std::to_string(victim) + ") killed by SIGKILL");
  EXPECT_THAT(story.err, HasSubstr("rank 2 failed first: killed by SIGKILL"));
  EXPECT_TRUE(story.dones()[0].verified.value_or(false));
  EXPECT_EQ(recorded_steps(), first_steps(kSteps));
}

TEST_F(RestartTest, StoppedRankRunsIntoTheDeadlineAndIsReplaced) {
  const std::string wanted = straight_digest();
  Background launch(env_, job(), {often_[0], often_[1], "collectives.timeout=3s"}, restarting(3));
  const std::string before = up_to_a_checkpoint(launch);
  const pid_t victim = rank_process(launch, 1);
  ASSERT_NE(victim, 0);
  ASSERT_EQ(::kill(victim, SIGSTOP), 0);
  const Story story = end_of(launch, before);

  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  ASSERT_EQ(story.restarts().size(), 1u) << story.err;
  EXPECT_THAT(story.err, HasSubstr("suspect: rank 1"));
  EXPECT_TRUE(gone(victim));
}

TEST_F(RestartTest, KilledPrivateDaemonIsReplaced) {
  const std::string wanted = straight_digest();
  Background launch(env_, job(), without_takeover_, restarting(3));
  const std::string before = up_to_a_checkpoint(launch);
  const auto daemons = launch.children("npud");
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
  const Story story = end_of(launch, before);

  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  expect_one_restart(story, "killed by SIGKILL");
  EXPECT_THAT(story.restarts()[0].reason, HasSubstr("npud"));
  EXPECT_EQ(recorded_steps(), first_steps(kSteps));
}

TEST_F(RestartTest, DaemonOfTheSystemIsWaitedFor) {
  const std::string wanted = straight_digest();
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background launch(env_, job(), without_takeover_, restarting(3));
  const std::string before = up_to_a_checkpoint(launch);
  daemon.stop(SIGKILL);
  ASSERT_TRUE(
      holds_within(kHang, [&] { return launch.err().find("restart 1 in") != std::string::npos; }));
  daemon.start();
  const Story story = end_of(launch, before);

  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  expect_one_restart(story, "the daemon at '" + daemon.socket() + "' is gone");
}

TEST_F(RestartTest, DaemonThatDiesAfterTheRanksAreDoneIsReplacedForTheLastCheck) {
  env_.push_back("NPU_FAILPOINTS=launch.before_confirm=stop");
  Background launch(env_, job(), often_, restarting(3));
  const std::string stat = "/proc/" + std::to_string(launch.pid()) + "/stat";
  const std::string before = up_to_a_checkpoint(launch);
  ASSERT_TRUE(
      holds_within(kHang, [&] { return contents(stat).find(") T ") != std::string::npos; }));
  const auto daemons = launch.children("npud");
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
  launch.kill(SIGCONT);
  const Story story = end_of(launch, before);
  EXPECT_EQ(story.code, 0) << story.err;
  ASSERT_EQ(story.dones().size(), 1u);
  EXPECT_TRUE(story.dones()[0].verified.value_or(false));
  EXPECT_EQ(story.restarts().size(), 0u);
}

TEST_F(RestartTest, SignalEndsTheWaitForADaemonAtOnce) {
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background launch(env_, job(), without_takeover_, restarting(3));
  (void)up_to_a_checkpoint(launch);
  daemon.stop(SIGKILL);
  ASSERT_TRUE(
      holds_within(kHang, [&] { return launch.err().find("restart 1 in") != std::string::npos; }));
  launch.kill(SIGINT);
  EXPECT_EQ(launch.wait(), 128 + SIGINT);
  EXPECT_THAT(launch.err(),
              HasSubstr(fmt::format("stopped by SIGINT from pid {}, uid {} while waiting",
                                    ::getpid(), ::getuid())));
}

TEST_F(RestartTest, SignalEndsTheBackoffAtOnce) {
  Background launch(env_, job(), often_, restarting(3, "30"));
  const std::string before = up_to_a_checkpoint(launch);
  const pid_t victim = rank_process(launch, 0);
  ASSERT_NE(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  ASSERT_TRUE(holds_within(
      kHang, [&] { return launch.err().find("restart 1 in 30 s") != std::string::npos; }));
  const auto asked = Clock::now();
  launch.kill(SIGTERM);
  const Story story = end_of(launch, before);
  EXPECT_EQ(story.code, 128 + SIGTERM);
  EXPECT_LT(Clock::now() - asked, std::chrono::seconds(25));  // not the whole wait
  EXPECT_EQ(story.restarts().size(), 0u);
  EXPECT_THAT(story.err,
              HasSubstr(fmt::format(
                  "stopped by SIGTERM from pid {}, uid {} while waiting to restart the job",
                  ::getpid(), ::getuid())));
}

TEST_F(RestartTest, KilledLauncherLeavesNothingInTheBackoff) {
  {
    Background launch(env_, job(), often_, restarting(3, "30"));
    (void)up_to_a_checkpoint(launch);
    const auto daemons = launch.children("npud");
    ASSERT_EQ(daemons.size(), 1u);
    ASSERT_EQ(::kill(rank_process(launch, 0), SIGKILL), 0);
    ASSERT_TRUE(holds_within(
        kHang, [&] { return launch.err().find("restart 1 in 30 s") != std::string::npos; }));
    launch.kill(SIGKILL);
    EXPECT_EQ(launch.wait(), 128 + SIGKILL);
    EXPECT_TRUE(holds_within(kHang, [&] { return gone(daemons[0]); }));
  }
  const Outcome next = this->launch(often_);  // removes the directory, goes on
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_TRUE(last<client::StartEvent>(events_of(next.out))->resumed_step);
}

TEST_F(RestartTest, BeginsAnewOnlyUntilItsOwnFirstCheckpoint) {
  const std::string wanted = straight_digest();
  ASSERT_EQ(done({}).steps,
            16);  // an older run of that name, whose checkpoints are not to be resumed
  Background launch(env_, job(), {often_[0], often_[1], "checkpoint.resume=never"}, restarting(3));
  std::string before = launch.read_until("\"step\":1,");
  ASSERT_EQ(::kill(rank_process(launch, 3), SIGKILL), 0);
  before += launch.read_until("\"type\":\"restart\"");
  before += up_to_a_checkpoint(launch);
  ASSERT_EQ(::kill(rank_process(launch, 3), SIGKILL), 0);
  const Story story = end_of(launch, before);

  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  ASSERT_EQ(story.restarts().size(), 2u) << story.err;
  ASSERT_EQ(story.starts().size(), 3u);
  EXPECT_FALSE(story.starts()[0].resumed_step);
  EXPECT_EQ(story.starts()[1].resumed_step.value_or(1), story.restarts()[0].step + 1);
  ASSERT_TRUE(story.starts()[2].resumed_step);
  EXPECT_EQ(*story.starts()[2].resumed_step, story.restarts()[1].step + 1);
}

TEST_F(RestartTest, MistakesAndStopsAreNotRestarted) {
  const auto most = restarting(3);
  const Outcome missing = launch({"data.format=idx", "data.path=/no/such/folder"}, most);
  EXPECT_EQ(missing.code, 66) << missing.err;
  EXPECT_THAT(missing.err,
              HasSubstr("not restarted: what ends with exit code 66 would come again"));
  EXPECT_THAT(missing.out, Not(HasSubstr("\"type\":\"restart\"")));

  // F38: a job file with a mistake is no reason to try again.
  const Outcome bad =
      npu({"launch", file("bad.yaml", "name: bad\ndevices: 0-3\ntrain: {epoch: 2}\n"),
           "--max-restarts", "3", "--restart-backoff", "0.1"});
  EXPECT_EQ(bad.code, 78) << bad.err;
  EXPECT_THAT(bad.err, HasSubstr("bad.yaml:3:9: error: "));
  EXPECT_THAT(bad.err, Not(HasSubstr("restart 1 in")));

  Background stopped(env_, job(), {often_[0], "train.epochs=1000"}, most);
  const std::string before = up_to_a_checkpoint(stopped);
  stopped.kill(SIGTERM);
  const Story story = end_of(stopped, before);
  EXPECT_EQ(story.code, 80) << story.err;
  EXPECT_EQ(story.restarts().size(), 0u);

  const Outcome usage = launch({}, {"--max-restarts=-1"});
  EXPECT_EQ(usage.code, 64);
  EXPECT_THAT(usage.err, HasSubstr("--max-restarts"));
}

TEST_F(RestartTest, KeyOfTheJobFileDoesWhatTheFlagDoes) {
  Background launch(env_, job(),
                    {often_[0], often_[1], "restart.max_restarts=1", "restart.backoff=100ms"});
  const std::string before = up_to_a_checkpoint(launch);
  ASSERT_EQ(::kill(rank_process(launch, 1), SIGKILL), 0);
  const Story story = end_of(launch, before);
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.restarts().size(), 1u);
}

// F42: a restart storm ends, and the daemon is as it was.
TEST_F(RestartTest, RankThatDiesAtEveryStartEndsTheJobWithTheBudget) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  env_.push_back("NPU_FAILPOINTS=rank2/train.start=kill");
  const auto begin = Clock::now();
  const Outcome got = launch(often_, restarting(3));
  EXPECT_EQ(got.code, 128 + SIGKILL) << got.err;
  EXPECT_GE(Clock::now() - begin, milliseconds(100 + 200 + 400));
  const auto events = events_of(got.out);
  const auto restart = last<client::RestartEvent>(events);
  ASSERT_TRUE(restart) << got.err;
  EXPECT_EQ(restart->attempt, 3);
  EXPECT_EQ(restart->step, 0);
  EXPECT_THAT(restart->reason, HasSubstr("killed by SIGKILL, before its first step"));
  EXPECT_THAT(got.err, HasSubstr("restart 3 in 0.4 s (3 of 3 without a new checkpoint)"));
  EXPECT_THAT(got.err,
              HasSubstr("not restarted again: 3 restarts in a row brought no new checkpoint"));
  EXPECT_FALSE(last<client::DoneEvent>(events));

  env_.pop_back();
  const Outcome next = launch(often_);  // the same daemon, the same devices
  EXPECT_EQ(next.code, 0) << next.err;
}

TEST_F(RestartTest, DaemonThatDiesAtEveryStartEndsTheJobWithTheBudget) {
  Background launch(env_, job(), without_takeover_, restarting(2));
  const std::string before = up_to_a_checkpoint(launch);
  // Each attempt's daemon dies as soon as it is there, before a checkpoint of a new step.
  pid_t killed = 0;
  while (launch.running()) {
    for (const pid_t pid : launch.children("npud")) {
      if (pid != killed) ::kill(killed = pid, SIGKILL);
    }
    ::poll(nullptr, 0, 1);
  }
  const Story story = end_of(launch, before);
  EXPECT_THAT(std::vector<int>({69, 75}), testing::Contains(story.code)) << story.err;
  EXPECT_THAT(story.err, HasSubstr("not restarted again: 2 restarts in a row"));
}

}  // namespace
}  // namespace npu::e2e
