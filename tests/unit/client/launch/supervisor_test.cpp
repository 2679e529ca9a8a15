#include "client/launch/supervisor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch_fixture.hpp"

namespace npu::client {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class SupervisorTest : public testing::Test {
 protected:
  JobOutcome run(const std::vector<std::string>& scripts,
                 const SupervisorOptions& options = quick()) {
    auto signals = StopSignals::make();
    EXPECT_TRUE(signals);
    const auto outcome = supervise(shell_ranks(scripts), *signals, renderer_, options);
    EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no zombie, no child left
    return outcome ? *outcome : JobOutcome{.exit_code = -1};
  }

  RememberingRenderer renderer_;
};

TEST_F(SupervisorTest, AllRanksSucceedAndNothingIsReported) {
  const JobOutcome outcome = run({"exit 0", "exit 0", "exit 0"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(renderer_.notices, "");
  EXPECT_EQ(renderer_.error(), nullptr);
}

TEST_F(SupervisorTest, FailedRankGivesItsExitCodeAndEndsTheOthers) {
  const auto before = Clock::now();
  const JobOutcome outcome = run({"exec sleep 100", "exit 3", "exec sleep 100"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.failed_rank, 1);
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));  // a hang, not a slow machine
  EXPECT_THAT(renderer_.notices, HasSubstr("npu launch: rank 1 failed first: exit code 3, pid "));
  EXPECT_THAT(renderer_.notices, HasSubstr("ranks 0,2: ended by the launcher"));
  ASSERT_NE(renderer_.error(), nullptr);
  EXPECT_EQ(renderer_.error()->rank, 1);
}

TEST_F(SupervisorTest, KilledRankIsNamedWithItsSignalWithinASecond) {
  const auto before = Clock::now();
  const JobOutcome outcome = run({"exec sleep 100", "exec sleep 100", "kill -9 $$"});
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));  // a hang, not a slow machine
  EXPECT_EQ(outcome.exit_code, 128 + SIGKILL);
  EXPECT_THAT(renderer_.notices, HasSubstr("rank 2 failed first: killed by SIGKILL"));
}

TEST_F(SupervisorTest, RankThatIgnoresTermIsKilledAfterTheGrace) {
  const JobOutcome outcome = run({"trap '' TERM; while :; do sleep 100; done", "exit 4"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(renderer_.notices, HasSubstr("rank 0: ended by the launcher"));
}

TEST_F(SupervisorTest, StoppedRankIsEndedToo) {
  EXPECT_EQ(run({"kill -STOP $$; exit 0", "sleep 0.1; exit 4"}).exit_code, 4);
}

TEST_F(SupervisorTest, ConsequencesWaitForTheirCause) {
  const JobOutcome outcome = run({"exit 76", "exit 76", "sleep 0.2; exit 5"});
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(renderer_.notices, HasSubstr("rank 2 failed first"));
  EXPECT_THAT(renderer_.notices, HasSubstr("ranks 0-1: exit code 76 (peer failed)"));
}

TEST_F(SupervisorTest, ConsequenceAloneIsStillAFailure) {
  const JobOutcome outcome =
      run({"exit 76", "exec sleep 100"},
          {.failure_grace = milliseconds(300), .settle_consequence = milliseconds(50)});
  EXPECT_EQ(outcome.exit_code, 76);
}

TEST_F(SupervisorTest, OutputIsPrefixedAndKeepsItsStream) {
  run({"echo one; echo two >&2; printf three", "echo four"});
  EXPECT_THAT(renderer_.out, Contains("[rank 0] one"));
  EXPECT_THAT(renderer_.out, Contains("[rank 0] three"));
  EXPECT_THAT(renderer_.out, Contains("[rank 1] four"));
  EXPECT_THAT(renderer_.err, ElementsAre("[rank 0] two"));
}

TEST_F(SupervisorTest, MuchOutputArrivesWholeAndInOrder) {
  run({"seq 1 20000"});
  ASSERT_EQ(renderer_.out.size(), 20'000u);
  EXPECT_EQ(renderer_.out.back(), "[rank 0] 20000");
}

TEST_F(SupervisorTest, LastLogLineIsPartOfTheReport) {
  run({"echo nearly there; exit 3"});
  EXPECT_THAT(renderer_.notices, HasSubstr("last log: nearly there"));
}

TEST_F(SupervisorTest, EventsReachTheRendererAndSayWhatTheJobWasDoing) {
  const std::string step = to_json(StepEvent{.epoch = 3, .step = 309});
  run({"echo '" + step + "' > /proc/self/fd/$NPU_EVENT_FD; exec sleep 100",
       "sleep 0.2; kill -SEGV $$"});
  ASSERT_FALSE(renderer_.events.empty());
  EXPECT_TRUE(std::holds_alternative<StepEvent>(renderer_.events.front()));
  EXPECT_THAT(renderer_.notices, HasSubstr("killed by SIGSEGV"));
  EXPECT_THAT(renderer_.notices, HasSubstr("epoch 3 step 309"));
}

TEST_F(SupervisorTest, OutcomeSaysWhatARestartWantsToKnow) {
  const std::string fd = " > /proc/self/fd/$NPU_EVENT_FD; ";
  const std::string start = to_json(StartEvent{.run = "r", .resumed_step = 5});
  const std::string saved = to_json(CheckpointEvent{.step = 8, .path = "/s/step-8"});
  const std::string done = to_json(DoneEvent{.steps = 8});
  const std::string say = "echo '" + start + "'" + fd + "echo '" + saved + "'" + fd;
  const JobOutcome failed = run({say + "exec sleep 100", "sleep 0.2; kill -KILL $$"});
  EXPECT_FALSE(failed.well);
  EXPECT_THAT(failed.reason,
              testing::MatchesRegex("rank 1 \\(pid [0-9]+\\) killed by SIGKILL, .*"));
  EXPECT_EQ(failed.first_step, 5);
  EXPECT_EQ(failed.committed_step, 8);
  EXPECT_EQ(failed.committed, "/s/step-8");
  // Rank 0 came to its end, another did not come out: nobody has shown `done` yet.
  const JobOutcome late = run({"echo '" + done + "'" + fd + "exit 0", "sleep 0.2; kill -KILL $$"});
  EXPECT_FALSE(late.well);
  ASSERT_TRUE(late.done);
  for (const Event& event : renderer_.events) {
    EXPECT_FALSE(std::holds_alternative<DoneEvent>(event));
  }
  EXPECT_TRUE(run({"exit 0"}).well);
}

TEST_F(SupervisorTest, ErrorOfARankIsShownOnceInTheReport) {
  const std::string error = to_json(ErrorEvent{.code = "data_loss", .message = "the file is cut"});
  const std::string script = "echo '" + error + "' > /proc/self/fd/$NPU_EVENT_FD; exit 65";
  EXPECT_EQ(run({script, script}).exit_code, 65);
  EXPECT_THAT(renderer_.notices, HasSubstr("error: the file is cut"));
  EXPECT_EQ(renderer_.events.size(), 1u);
}

TEST_F(SupervisorTest, GarbageOnTheEventPipeIsMentionedAndIgnored) {
  EXPECT_EQ(run({"echo garbage > /proc/self/fd/$NPU_EVENT_FD; exit 0"}).exit_code, 0);
  EXPECT_THAT(renderer_.notices, HasSubstr("rank 0: read event 'garbage'"));
}

TEST_F(SupervisorTest, NoDescriptorIsLeft) {
  run({"exit 0"});
  const size_t before = open_descriptors();
  run({"exit 0", "exit 3", "kill -9 $$"});
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SupervisorTest, RankThatCannotStartIsAnErrorAndEndsTheOthers) {
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  auto specs = shell_ranks({"exec sleep 100", "exit 0"});
  specs[1].path = "/no/such/program";
  const auto outcome = supervise(specs, *signals, renderer_, quick());
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("rank 1: start '/no/such/program'"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(SupervisorTest, DeathOfThePrivateDaemonEndsTheJob) {
  auto daemon = Child::start({.path = "/bin/sh",
                              .argv = {"sh", "-c", "sleep 0.1; kill -9 $$"},
                              .env = {"PATH=/usr/bin:/bin"}});
  ASSERT_TRUE(daemon);
  SupervisorOptions options = quick();
  options.daemon = &*daemon;
  EXPECT_EQ(run({"exec sleep 100", "exec sleep 100"}, options).exit_code, 69);
  EXPECT_THAT(renderer_.notices, HasSubstr("failed first: killed by SIGKILL"));
}

}  // namespace
}  // namespace npu::client
