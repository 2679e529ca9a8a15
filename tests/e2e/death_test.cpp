// kill -9 of a rank, of the daemon and of the launcher: who died is named, all others end at once,
// nothing stays behind and the next launch goes on. Times found are printed.
#include <gmock/gmock.h>

#include <regex>

#include "e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;

// The requirement is 1 s; what a test allows leaves room for a loaded machine.
constexpr milliseconds kLimit{10000};  // a hang; the times themselves are printed

class DeathTest : public E2eTest {
 protected:
  const std::vector<std::string> endless_ = {"train.epochs=100000", "checkpoint.every_steps=5"};

  /// The pid that `npu info` shows for a rank, 0 when it shows none.
  pid_t pid_of_rank(int rank) {
    const std::string text = npu({"info", "-o", "json"}).out;
    std::smatch match;
    const std::regex wanted("\"rank\":" + std::to_string(rank) + ",\"pid\":([0-9]+)");
    return std::regex_search(text, match, wanted) ? std::stoi(match[1]) : 0;
  }

  size_t busy_devices() {
    const Outcome info = npu({"info", "-o", "json"});
    EXPECT_EQ(info.code, 0) << info.err;
    const std::string& text = info.out;
    size_t idle = 0;
    for (size_t at = 0; (at = text.find("\"state\":\"idle\"", at)) != std::string::npos; ++at)
      ++idle;
    return 8 - idle;
  }

  static bool all_gone(const std::vector<pid_t>& pids) {
    return std::all_of(pids.begin(), pids.end(), gone);
  }
};

TEST_F(DeathTest, KilledRankIsNamedAndTheNextLaunchResumes) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background launch(env_, job(), endless_);
  ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
  const auto ranks = launch.children("train");
  const pid_t victim = pid_of_rank(3);
  ASSERT_EQ(ranks.size(), 4u);
  ASSERT_NE(victim, 0);
  EXPECT_EQ(busy_devices(), 4u);

  const auto killed = Clock::now();
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_EQ(launch.wait(), 128 + SIGKILL);
  std::printf("launch ended %.3f s after kill -9 of rank 3\n", seconds_since(killed));
  EXPECT_LT(Clock::now() - killed, kLimit);

  const std::string err = launch.err();
  EXPECT_THAT(err,
              HasSubstr("rank 3 failed first: killed by SIGKILL, pid " + std::to_string(victim)));
  EXPECT_TRUE(all_gone(ranks));
  EXPECT_TRUE(holds_within(kLimit, [&] { return busy_devices() == 0; }));

  Background next(env_, job(), endless_);
  EXPECT_THAT(next.read_until("\"type\":\"step\""), HasSubstr("\"resumed_step\":"));
  next.kill(SIGTERM);
  EXPECT_EQ(next.wait(), 80);
}

TEST_F(DeathTest, KilledDaemonEndsEveryRankAndTheLaunch) {
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  std::vector<std::string> sets = endless_;
  sets.emplace_back("collectives.reconnect=0");
  Background launch(env_, job(), sets);
  ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
  const auto ranks = launch.children("train");
  ASSERT_EQ(ranks.size(), 4u);

  const auto killed = Clock::now();
  daemon.stop(SIGKILL);
  EXPECT_TRUE(holds_within(kLimit, [&] { return all_gone(ranks); }));
  std::printf("ranks ended %.3f s after kill -9 of npud\n", seconds_since(killed));
  EXPECT_EQ(launch.wait(), 69);
  std::printf("launch ended %.3f s after kill -9 of npud\n", seconds_since(killed));
  EXPECT_LT(Clock::now() - killed, kLimit);
  EXPECT_THAT(launch.err(), HasSubstr("the daemon at '" + daemon.socket() + "' is gone"));
  EXPECT_THAT(launch.read_until("never"), HasSubstr("\"exit_code\":69"));
}

TEST_F(DeathTest, KilledPrivateDaemonEndsTheLaunch) {
  std::vector<std::string> sets = endless_;
  sets.emplace_back("collectives.reconnect=0");
  Background launch(env_, job(), sets);
  ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
  const auto daemons = launch.children("npud");
  ASSERT_EQ(daemons.size(), 1u);

  const auto killed = Clock::now();
  ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
  EXPECT_EQ(launch.wait(), 69);
  std::printf("launch ended %.3f s after kill -9 of its private npud\n", seconds_since(killed));
  EXPECT_LT(Clock::now() - killed, kLimit);
  EXPECT_THAT(launch.err(), HasSubstr("the private npud (pid " + std::to_string(daemons[0]) +
                                      ") failed first: killed by SIGKILL"));
}

TEST_F(DeathTest, KilledLauncherLeavesNoProcess) {
  pid_t daemon = 0;
  {
    Background launch(env_, job(), endless_);
    ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
    auto children = launch.children("train");
    const auto daemons = launch.children("npud");
    ASSERT_EQ(children.size(), 4u);
    ASSERT_EQ(daemons.size(), 1u);
    daemon = daemons[0];
    children.push_back(daemon);

    const auto killed = Clock::now();
    launch.kill(SIGKILL);
    EXPECT_TRUE(holds_within(kLimit, [&] { return all_gone(children); }));
    std::printf("ranks and private npud ended %.3f s after kill -9 of the launcher\n",
                seconds_since(killed));
    EXPECT_EQ(launch.wait(), 128 + SIGKILL);
  }
  // The next one removes the directory that nobody could remove, and goes on from the store.
  const Outcome next = this->launch({"train.epochs=1", "checkpoint.resume_override=[epochs]"});
  EXPECT_EQ(next.code, 0) << next.err;
}

TEST_F(DeathTest, StoppedRankDoesNotKeepAKilledLaunchAlive) {
  Background launch(env_, job(), endless_);
  ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
  const auto ranks = launch.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  ASSERT_EQ(::kill(ranks[1], SIGSTOP), 0);
  ASSERT_EQ(::kill(ranks[2], SIGKILL), 0);
  const auto killed = Clock::now();
  EXPECT_EQ(launch.wait(), 128 + SIGKILL);
  std::printf("launch with a stopped rank ended %.3f s after kill -9 of another\n",
              seconds_since(killed));
  EXPECT_TRUE(all_gone(ranks));
}

}  // namespace
}  // namespace npu::e2e
