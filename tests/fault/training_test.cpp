// Faults of whole jobs: F02 and F05 between backward and all-reduce, F06 under the launcher, F30
// with a checkpoint in progress, F41 the clock.
#include <gmock/gmock.h>

#include <regex>

#include "tests/e2e/e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;

class TrainingFaultTest : public E2eTest {
 protected:
  /// What `npu launch` and all that it starts have in their environment besides.
  void add_environment(const std::string& variable) { env_.push_back(variable); }
  void drop_environment(const std::string& name) {
    std::erase_if(env_, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  }

  /// Digest of the job when nothing happens, in a store of its own.
  std::string calm_digest() {
    const std::string state = root_ + "/calm-state";
    const Outcome got = launch(sets_, {"--state-dir", state});
    EXPECT_EQ(got.code, 0) << got.err;
    const auto end = last<client::DoneEvent>(events_of(got.out));
    return end ? end->weights_digest : "";
  }

  /// The rank fails there; the launch says so; the next one goes on to the bits of the calm job.
  void expect_named_and_resumed(const std::string& failpoint, int rank, const std::string& how,
                                int code) {
    const std::string calm = calm_digest();
    add_environment(fmt::format("NPU_FAILPOINTS=rank{}/{}", rank, failpoint));
    const auto begin = Clock::now();
    const Outcome failed = launch(sets_);
    std::printf("[  TIME    ] launch ended after %.3f s\n", seconds_since(begin));
    EXPECT_EQ(failed.code, code) << failed.err;
    EXPECT_THAT(failed.err, HasSubstr(fmt::format("rank {} failed first: {}", rank, how)));
    drop_environment("NPU_FAILPOINTS");
    const client::DoneEvent resumed = done(sets_);
    EXPECT_EQ(resumed.weights_digest, calm) << "the run that was interrupted has other bits";
  }

  const std::vector<std::string> sets_ = {"train.epochs=3", "checkpoint.every_steps=3"};
};

// F02 in training: gradients are there, some are on their way.
TEST_F(TrainingFaultTest, RankKilledBeforeAnAllReduceLosesNothing) {
  expect_named_and_resumed("train.before_all_reduce=kill@20", 2, "killed by SIGKILL",
                           128 + SIGKILL);
}

TEST_F(TrainingFaultTest, RankKilledInsideASubmissionLosesNothing) {
  expect_named_and_resumed("coll.entry_half_written=kill@30", 0, "killed by SIGKILL",
                           128 + SIGKILL);
}

// F05: the launcher knows how it ended.
TEST_F(TrainingFaultTest, RankThatCrashesAfterBackwardIsNamedWithItsSignal) {
  expect_named_and_resumed("train.after_backward=segv@11", 3, "killed by SIGSEGV", 128 + SIGSEGV);
}

// F06: the others name the stopped one; the launcher ends it, too.
TEST_F(TrainingFaultTest, RankThatStopsIsNamedAtTheDeadline) {
  add_environment("NPU_FAILPOINTS=rank1/train.before_all_reduce=stop@20");
  const Outcome failed = launch({"train.epochs=3", "collectives.timeout=4s"});
  EXPECT_NE(failed.code, 0);
  EXPECT_THAT(failed.err, HasSubstr("rank 1 did not arrive within 4 s (rank 1: pid "));
}

// F30: whatever was being written is whole or gone.
TEST_F(TrainingFaultTest, DaemonThatIsToldToStopEndsItsCheckpoints) {
  test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background launch(env_, job(), {"train.epochs=100000", "checkpoint.every_steps=1"});
  ASSERT_THAT(launch.read_until("\"step\":12,"), HasSubstr("\"step\":12,"));
  const auto begin = Clock::now();
  EXPECT_EQ(daemon.stop(SIGTERM), 0);
  std::printf("[  TIME    ] drained: %.3f s (bound 25 s)\n", seconds_since(begin));
  EXPECT_EQ(launch.wait(), static_cast<int>(Exit::kNoDaemon)) << launch.err();
  EXPECT_THAT(launch.err(), HasSubstr("the daemon is shutting down"));
  daemon.start();
  const Outcome verified = npu({"ckpt", "verify", "tiny"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon.state_dir())) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".tmp-")));
  }
}

// F41: the wall clock is in file names and tables and in nothing that waits.
TEST_F(TrainingFaultTest, ClockThatJumpsAnHourHasNoEffect) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer wants to be the first that is loaded";
#endif
  const std::string calm = calm_digest();
  add_environment("LD_PRELOAD=" NPU_CLOCK_STEP);
  const client::DoneEvent jumping = done(sets_);
  EXPECT_EQ(jumping.weights_digest, calm);
  // Deadlines hold, too: 4 s are neither an hour nor none.
  add_environment("NPU_FAILPOINTS=rank1/train.before_all_reduce=stop@20");
  const auto begin = Clock::now();
  const Outcome failed =
      launch({"train.epochs=9", "collectives.timeout=4s", "checkpoint.resume=never"});
  EXPECT_THAT(failed.err, HasSubstr("rank 1 did not arrive within 4 s (rank 1: pid "));
  EXPECT_GT(Clock::now() - begin, milliseconds(4000));
  EXPECT_LT(Clock::now() - begin, milliseconds(60'000));
}

}  // namespace
}  // namespace npu::e2e
