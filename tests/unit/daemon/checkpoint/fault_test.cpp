// Fails, and dies, at every single system call of a commit: the previous checkpoint must load
// bit-exact each time.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

enum class Scenario : uint8_t { kNextStep, kSameStep, kSameStepWithoutFlags, kRotating };

class FaultTest : public StoreFixture, public testing::WithParamInterface<Scenario> {
 protected:
  // In memory: a thousand small stores come and go, and nothing here depends on the medium.
  FaultTest() : StoreFixture("/dev/shm") {}

  // A fresh store that holds `before_` (two checkpoints when rotating), and the commit under test.
  void prepare(FaultyOps* ops) {
    std::filesystem::remove_all(state_dir());
    ops->rename_flags = GetParam() != Scenario::kSameStepWithoutFlags;
    // Then BEST is written, too, and the old best one goes away.
    before_->snapshot.best = attempt_->snapshot.best = GetParam() == Scenario::kRotating;
    auto store = open_store(&quiet_);
    if (GetParam() == Scenario::kRotating) commit_ok(store, older_->snapshot);
    commit_ok(store, before_->snapshot);
    attempt_->snapshot.keep = GetParam() == Scenario::kRotating ? 1 : 3;
  }

  [[nodiscard]] bool any_leftover() const {
    for (const auto& name : names(run_dir())) {
      if (name.find(".tmp-") != std::string::npos || name.find(".old-") != std::string::npos)
        return true;
    }
    return false;
  }

  // What a restarted daemon finds: exactly the old state, or exactly the new one.
  void expect_old_or_new(bool expect_old, bool expect_new) {
    auto store = open_store(&quiet_);
    const auto swept = store.sweep();
    ASSERT_TRUE(swept.has_value()) << swept.error().message;
    EXPECT_TRUE(swept->warnings.empty());
    EXPECT_FALSE(any_leftover());
    const auto checkpoint = store.open_newest_valid(kUid, kRun);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
    EXPECT_TRUE(checkpoint->warnings.empty());
    OpenFile const* state = checkpoint->find(kStateFile);
    ASSERT_NE(state, nullptr);
    std::string text(state->size_bytes, '\0');
    ASSERT_TRUE(pread_all(state->fd.get(), std::as_writable_bytes(std::span(text)), 0, "state"));
    const bool is_new = text == attempt_->snapshot.state_json;
    EXPECT_TRUE(is_new ? expect_new : expect_old) << "found " << text;
    expect_same(*checkpoint, is_new ? attempt_->snapshot : before_->snapshot);
  }

  FaultyOps quiet_;  // never fails, and skips the real fsync: what a test sets up need not survive
                     // a power cut
  std::unique_ptr<Staged> older_ = staged(5, 7);
  std::unique_ptr<Staged> before_ = staged(10, 1);
  std::unique_ptr<Staged> attempt_ =
      GetParam() == Scenario::kNextStep || GetParam() == Scenario::kRotating ? staged(20, 2)
                                                                             : staged(10, 2);
};

TEST_P(FaultTest, EverySystemCallMayFail) {
  for (const int error : {EIO, ENOSPC, EROFS}) {
    uint64_t n = 1;
    for (;; ++n) {
      FaultyOps ops;
      prepare(&ops);
      auto sut = open_store(&ops);
      ops.fail_at = n;
      ops.error = error;
      const auto report = sut.commit(attempt_->snapshot);
      const bool fired = !ops.failed_call.empty();
      SCOPED_TRACE(fmt::format("call {} ({}) fails with errno {}", n, ops.failed_call, error));
      ops.fail_at = 0;

      if (!report) {
        EXPECT_FALSE(any_leftover()) << report.error().message;
        expect_old_or_new(true, false);
        // Only a new attempt with new files may flush again.
        for (const auto& [fd, count] : ops.syncs_after_fail)
          EXPECT_LE(count, 0) << "descriptor " << fd;
      } else {
        expect_old_or_new(false, true);
      }
      // Whatever happened: the same commit works afterwards.
      const auto again = open_store(&quiet_).commit(attempt_->snapshot);
      ASSERT_TRUE(again.has_value()) << again.error().message;
      if (!fired || HasFailure()) break;
    }
    EXPECT_GT(n, 50U);
  }
}

TEST_P(FaultTest, TheDaemonMayDieAtEverySystemCall) {
  bool died = true;
  uint64_t n = 1;
  for (; died && !HasFailure(); ++n) {
    FaultyOps ops;
    prepare(&ops);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto sut = CheckpointStore::open(state_dir(), {.ops = &ops});
      ops.fail_at = n;
      ops.error = FaultyOps::kDie;
      const bool good = sut.has_value() && sut->commit(attempt_->snapshot).has_value();
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    died = WEXITSTATUS(status) == FaultyOps::kExitCode;
    SCOPED_TRACE(fmt::format("dies at call {}", n));
    if (!died) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
    }
    expect_old_or_new(died, true);
  }
  EXPECT_GT(n, 50U);
}

INSTANTIATE_TEST_SUITE_P(Commit, FaultTest,
                         testing::Values(Scenario::kNextStep, Scenario::kSameStep,
                                         Scenario::kSameStepWithoutFlags, Scenario::kRotating),
                         [](const auto& scenario) -> std::string {
                           switch (scenario.param) {
                             case Scenario::kNextStep:
                               return "NextStep";
                             case Scenario::kSameStep:
                               return "SameStep";
                             case Scenario::kSameStepWithoutFlags:
                               return "SameStepWithoutFlags";
                             case Scenario::kRotating:
                               return "Rotating";
                           }
                           return "Unknown";
                         });

using FirstCommitFaultTest = StoreFixture;

TEST_F(FirstCommitFaultTest, AFailedFirstCommitLeavesNoCheckpoint) {
  const auto s = staged(1);
  for (uint64_t n = 1;; ++n) {
    std::filesystem::remove_all(state_dir());
    FaultyOps ops;
    auto sut = open_store(&ops);
    ops.fail_at = n;
    ops.error = ENOSPC;
    const auto report = sut.commit(s->snapshot);
    if (ops.failed_call.empty()) break;
    ops.fail_at = 0;
    const auto checkpoint = sut.open_newest_valid(kUid, kRun);
    EXPECT_EQ(checkpoint.has_value(), report.has_value()) << n;
    if (!checkpoint) {
      EXPECT_EQ(checkpoint.error().code, Code::kNotFound) << n;
    }
  }
}

TEST_F(FirstCommitFaultTest, DiskFullSaysWhatWasWanted) {
  FaultyOps ops;
  auto sut = open_store(&ops);
  const auto s = staged(1);
  for (ops.fail_at = 1; ops.failed_call != "fallocate"; ++ops.fail_at) {
    ASSERT_LT(ops.fail_at, 100U);
    std::filesystem::remove_all(run_dir());
    ops.calls = 0;
    ops.error = ENOSPC;
    const auto report = sut.commit(s->snapshot);
    if (ops.failed_call != "fallocate") continue;
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kResourceExhausted);
    EXPECT_EQ(report.error().exit, Exit::kCannotWrite);
    EXPECT_THAT(
        report.error().message,
        testing::StartsWith("reserve 2.7 KiB for model.safetensors of run 'resnet20' step 1"));
  }
}

}  // namespace
}  // namespace npu::daemon
