// F28, of a whole job: npud is killed while it trains and saves, and comes back; no rank is started
// again, and the weights are those of a run that nothing happened to.
#include <sys/wait.h>

#include "client/launch/private_daemon.hpp"
#include "restart_fixture.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;

constexpr milliseconds kHang{60'000};

class TakeoverJobTest : public RestartFixture {
 protected:
  void expect_unnoticed(const Story& story, const std::string& wanted) {
    EXPECT_EQ(story.code, 0) << story.err;
    EXPECT_EQ(story.digest(), wanted) << story.err;
    EXPECT_EQ(story.restarts().size(), 0u) << story.err;
    EXPECT_EQ(story.starts().size(), 1u);
    EXPECT_EQ(recorded_steps(), first_steps(kSteps));
    ASSERT_EQ(story.dones().size(), 1u);
    EXPECT_TRUE(story.dones()[0].verified.value_or(false));
  }
  /// Each checkpoint is told once.
  static void expect_checkpoints(const Story& story) {
    std::vector<int64_t> steps;
    for (const client::Event& event : story.events) {
      if (const auto* one = std::get_if<client::CheckpointEvent>(&event))
        steps.push_back(one->step);
    }
    std::vector<int64_t> wanted;
    for (int64_t step = 3; step <= kSteps; step += 3) wanted.push_back(step);
    std::erase_if(steps, [](int64_t step) { return step % 3 != 0; });  // of epochs
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    EXPECT_EQ(steps, wanted);
  }
};

TEST_F(TakeoverJobTest, PrivateDaemonIsStartedAgainUnderTheSameRanks) {
  const std::string wanted = straight_digest();
  Background launch(env_, job(), often_);
  std::string said;
  std::vector<pid_t> ranks;
  pid_t daemon = 0;
  // More, and sooner, than a daemon may die that is of no use.
  for (int kill = 0; kill < client::PrivateDaemon::kMostShortLives + 2; ++kill) {
    said += up_to_a_checkpoint(launch);
    if (kill == 0) ranks = launch.children("train");
    daemon = next_daemon(launch, daemon);
    ASSERT_NE(daemon, 0) << launch.err();
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  }
  said += up_to_a_checkpoint(launch);
  EXPECT_EQ(launch.children("train"), ranks);
  const Story story = end_of(launch, said);
  expect_unnoticed(story, wanted);
  expect_checkpoints(story);
  EXPECT_THAT(story.err, HasSubstr("was killed by SIGKILL"));
  EXPECT_THAT(story.err, HasSubstr("started again"));
}

TEST_F(TakeoverJobTest, EightRanksStay) {
  std::vector<std::string> sets = often_;
  sets.insert(sets.end(), {"devices=0-7", "data.workers=0", "name=straight"});
  const std::string wanted = done(sets).weights_digest;
  sets.pop_back();
  Background launch(env_, job(), sets);
  std::string said;
  pid_t daemon = 0;
  for (int kill = 0; kill < 2; ++kill) {
    said += up_to_a_checkpoint(launch);
    daemon = next_daemon(launch, daemon);
    ASSERT_NE(daemon, 0) << launch.err();
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  }
  expect_unnoticed(end_of(launch, said), wanted);
}

TEST_F(TakeoverJobTest, RankThatDiesBetweenItsNewPagesIsNamedAndTheJobRestarted) {
  const std::string wanted = straight_digest();
  env_.push_back("NPU_FAILPOINTS=rank1/reconnect.between_pages=kill");
  Background launch(env_, job(), often_, restarting(1));
  const std::string said = up_to_a_checkpoint(launch);
  ASSERT_EQ(::kill(next_daemon(launch, 0), SIGKILL), 0);
  const Story story = end_of(launch, said);
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  EXPECT_EQ(story.restarts().size(), 1u);
  EXPECT_THAT(story.err, HasSubstr("rank 1 failed first: killed by SIGKILL"));
}

// The second npud dies, too, while rank 1 has one of its two new pages.
TEST_F(TakeoverJobTest, DaemonThatDiesAgainWhileARankTakesItsPagesIsFollowedByAnother) {
  const std::string wanted = straight_digest();
  env_.push_back("NPU_FAILPOINTS=rank1/reconnect.between_pages=stop");
  Background launch(env_, job(), often_);
  const std::string said = up_to_a_checkpoint(launch);
  const pid_t first = next_daemon(launch, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  const pid_t second = next_daemon(launch, first);
  ASSERT_NE(second, 0) << launch.err();
  const pid_t between = rank_process(launch, 1);
  ASSERT_TRUE(holds_within(kHang, [&] { return test::state_of(between) == 'T'; }));
  ASSERT_EQ(::kill(second, SIGKILL), 0);
  ASSERT_EQ(::kill(between, SIGCONT), 0);
  expect_unnoticed(end_of(launch, said), wanted);
}

/// Where npud dies in a checkpoint, or in an operation; somebody like a service manager starts it
/// again.
class TakeoverPlaceTest : public TakeoverJobTest,
                          public testing::WithParamInterface<const char*> {};

TEST_P(TakeoverPlaceTest, NothingIsLost) {
  const std::string wanted = straight_digest();
  test::DaemonProcess daemon({}, {std::string("NPU_FAILPOINTS=") + GetParam()});
  use_daemon(daemon.socket());
  Background launch(env_, job(), often_);
  siginfo_t info{};
  ASSERT_TRUE(holds_within(kHang, [&] {
    return ::waitid(P_PID, static_cast<id_t>(daemon.pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid != 0;
  })) << "the daemon does not come to the place";
  (void)daemon.stop(SIGKILL);
  daemon.set_environment({});
  daemon.start();
  const Story story = end_of(launch, "");
  expect_unnoticed(story, wanted);
  expect_checkpoints(story);
}

INSTANTIATE_TEST_SUITE_P(Places, TakeoverPlaceTest,
                         testing::Values("ckpt.after_mkdir=kill@2", "ckpt.durable=kill@2",
                                         "ckpt.after_rotation=kill@3", "engine.copied=kill@20",
                                         "engine.announced=kill@40"));

// A job that is stopped while its daemon is away does not hang.
TEST_F(TakeoverJobTest, SignalWhileTheDaemonIsAwayEndsTheJob) {
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background launch(env_, job(), often_, {"--grace", "1"});
  (void)up_to_a_checkpoint(launch);
  daemon.stop(SIGKILL);
  launch.kill(SIGTERM);
  EXPECT_EQ(launch.wait(), 128 + SIGTERM);
}

TEST_F(TakeoverJobTest, DaemonThatStaysAwayEndsTheJobAfterTheTimeThatWasAsked) {
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  std::vector<std::string> sets = often_;
  sets.emplace_back("collectives.reconnect=500ms");
  Background launch(env_, job(), sets);
  (void)up_to_a_checkpoint(launch);
  daemon.stop(SIGKILL);
  EXPECT_EQ(launch.wait(), 69);
  EXPECT_THAT(launch.err(),
              HasSubstr("none took the run over within 0.5 s (collectives.reconnect)"));
  daemon.start();
}

}  // namespace
}  // namespace npu::e2e
