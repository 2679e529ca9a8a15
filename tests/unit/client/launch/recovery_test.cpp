#include "client/launch/recovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch_fixture.hpp"

namespace npu::client {
namespace {

using testing::HasSubstr;

TEST(PauseFor, PassesWithoutASignal) {
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  const auto begin = Clock::now();
  EXPECT_TRUE(pause_for(*signals, milliseconds(20), "waiting"));
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
}

TEST(PauseFor, SignalEndsItAtOnceWithItsExitCode) {
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  const auto begin = Clock::now();
  const auto sut = pause_for(*signals, std::chrono::minutes(10), "waiting to restart the job");
  ASSERT_FALSE(sut);
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1));  // a hang, not a slow machine
  EXPECT_EQ(static_cast<int>(sut.error().exit), 128 + SIGTERM);
  EXPECT_EQ(sut.error().message,
            fmt::format("stopped by SIGTERM from pid {}, uid {} while waiting to restart the job",
                        ::getpid(), ::getuid()));
}

TEST(AwaitDaemon, SaysWhereItWaitedAndHowLong) {
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  const auto sut = await_daemon("/no/such.sock", milliseconds(200), *signals, nullptr);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kNoDaemon);
  EXPECT_THAT(sut.error().message, HasSubstr("no daemon answers at '/no/such.sock' after 0.2 s"));
}

TEST(AwaitDaemon, DoesNotWaitForAProcessThatHasEnded) {
  auto signals = StopSignals::make();
  auto ended = Child::start({.path = "/bin/sh", .argv = {"sh", "-c", "exit 3"}, .env = {}});
  ASSERT_TRUE(signals && ended);
  ended->wait();
  const auto begin = Clock::now();
  const auto sut = await_daemon("/no/such.sock", std::chrono::minutes(10), *signals, &*ended);
  ASSERT_FALSE(sut);
  EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1));
  EXPECT_THAT(sut.error().message, HasSubstr("the private npud ended: exit code 3"));
}

TEST(AwaitDeparture, DaemonThatIsGoneHasNoRuns) {
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  EXPECT_TRUE(await_departure("/no/such.sock", "r", std::chrono::minutes(10), *signals));
}

TEST(NewestCheckpoint, NoneWhenTheDaemonIsGone) {
  EXPECT_FALSE(newest_checkpoint("/no/such.sock", "r"));
}

}  // namespace
}  // namespace npu::client
