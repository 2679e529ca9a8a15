// npu launch --wait: jobs that take turns on the same devices.
#include <gmock/gmock.h>

#include "client/api/admin.hpp"
#include "tests/e2e/e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WaitTest : public E2eTest {
 protected:
  WaitTest() { use_daemon(daemon_.socket()); }

  /// A job that holds devices 0 to 3 until it is told to stop.
  Background& long_job() {
    // Long epochs, of which it says little: nobody reads its output.
    busy_.emplace(env_, job("busy"),
                  std::vector<std::string>{"data.train_samples=64000", "train.epochs=1000",
                                           "train.print_freq=1000000"});
    EXPECT_TRUE(holds_within(milliseconds(20'000), [&] { return state_of("busy") == "running"; }));
    return *busy_;
  }
  std::string state_of(const std::string& run) {
    const auto runs = client::list_runs(daemon_.socket());
    for (const auto& r : *runs) {
      if (r.name == run && r.state != "ended" && r.state != "aborted") return r.state;
    }
    return "none";
  }

  uint64_t steps_of(const std::string& run) {
    const auto runs = client::list_runs(daemon_.socket());
    for (const auto& r : *runs) {
      if (r.name == run && r.state == "running") return r.ranks[0].steps;
    }
    return 0;
  }

  test::DaemonProcess daemon_;
  std::optional<Background> busy_;
};

TEST_F(WaitTest, AJobWaitsItsTurnAndThenTrains) {
  Background& busy = long_job();
  Background waiting(env_, job("next"), {"train.epochs=1"}, {"--wait"});
  ASSERT_TRUE(holds_within(milliseconds(20'000), [&] { return state_of("next") == "pending"; }));
  const auto runs = client::list_runs(daemon_.socket());
  for (const auto& run : *runs) {
    if (run.name != "next") continue;
    EXPECT_EQ(run.launcher, waiting.pid());
    EXPECT_EQ(run.place, 1u);
    EXPECT_EQ(run.last_error, "devices 0-3: your run 'busy'");
  }
  EXPECT_THAT(npu({"ps"}).out,
              AllOf(HasSubstr("pending"), HasSubstr("devices 0-3: your run 'busy'")));
  busy.kill(SIGTERM);
  EXPECT_EQ(busy.wait(), 80);
  EXPECT_EQ(waiting.wait(), 0) << waiting.err();
  EXPECT_THAT(
      waiting.err(),
      HasSubstr(
          "npu launch: waiting for devices, place 1 in the line; devices 0-3: your run 'busy'"));
}

TEST_F(WaitTest, WithoutItBusyDevicesAreAnErrorAndALimitIsOne) {
  long_job();
  const Outcome at_once = npu({"launch", job("next")});
  EXPECT_EQ(at_once.code, 75);
  EXPECT_THAT(at_once.err, HasSubstr("of run 'busy' holds it since"));
  const Outcome later = npu({"launch", job("next"), "--wait=0.2"});
  EXPECT_EQ(later.code, 75);
  EXPECT_THAT(
      later.err,
      HasSubstr(
          "devices 0-3 were not free within 0.2 s: place 1 in the line; devices 0-3: your run "
          "'busy'"));
  EXPECT_EQ(state_of("next"), "none");
  busy_->kill(SIGKILL);
  (void)busy_->wait();
}

TEST_F(WaitTest, ASignalEndsTheWaitProperly) {
  long_job();
  Background waiting(env_, job("next"), {}, {"--wait"});
  ASSERT_TRUE(holds_within(milliseconds(20'000), [&] { return state_of("next") == "pending"; }));
  waiting.kill(SIGINT);
  EXPECT_EQ(waiting.wait(), 130);
  EXPECT_THAT(waiting.err(), testing::AllOf(HasSubstr("stopped by SIGINT from pid"),
                                            HasSubstr("while waiting for devices")));
  EXPECT_TRUE(holds_within(milliseconds(20'000), [&] { return state_of("next") == "none"; }));
  busy_->kill(SIGKILL);
  (void)busy_->wait();
}

TEST_F(WaitTest, FreeDevicesAreNotWaitedForAndARunKeepsThemOverARestart) {
  Background sut(env_, job("mine"),
                 {"train.epochs=40", "train.print_freq=1000", "restart.max_restarts=1",
                  "restart.backoff=100ms"},
                 {"--wait"});
  ASSERT_TRUE(holds_within(milliseconds(20'000), [&] { return steps_of("mine") >= 9; }));
  Background other(env_, job("other"), {"train.epochs=1"}, {"--wait"});
  ASSERT_TRUE(holds_within(milliseconds(20'000), [&] { return state_of("other") == "pending"; }));
  const auto ranks = sut.children("train");
  ASSERT_FALSE(ranks.empty());
  ::kill(ranks.front(), SIGKILL);
  EXPECT_THAT(sut.read_until("\"type\":\"done\""), HasSubstr("done"));
  EXPECT_EQ(sut.wait(), 0) << sut.err();
  EXPECT_THAT(sut.err(), HasSubstr("restart 1"));
  EXPECT_EQ(other.wait(), 0) << other.err();
  EXPECT_THAT(other.err(), testing::Not(HasSubstr("error")));
}

TEST_F(WaitTest, ATimeThatIsNoneIsRefused) {
  for (const char* wait : {"--wait=0", "--wait=-1", "--wait=soon"}) {
    const Outcome got = npu({"launch", job(), wait});
    EXPECT_EQ(got.code, 64) << wait;
    EXPECT_THAT(got.err, HasSubstr("expected a time above 0 such as 30 or 5m"));
  }
  // A flag: what follows is the job.
  EXPECT_EQ(npu({"launch", "--wait", job("last"), "--set", "train.epochs=1"}).code, 0);
}

}  // namespace
}  // namespace npu::e2e
