// F35: no space, I/O errors, a store that cannot be written. The commit fails with a sentence, what
// was there is intact, nothing is flushed twice, and the next commit works when the disk does.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "store_fixture.hpp"

namespace npu::fault {
namespace {

using testing::HasSubstr;

struct Failure {
  const char* name;
  const char* failpoint;
  Exit exit;
  const char* says;
};
void PrintTo(const Failure& failure, std::ostream* os) { *os << failure.failpoint; }

class ErrorTest : public StoreFaultTest, public testing::WithParamInterface<Failure> {};

TEST_P(ErrorTest, IsReportedAndThePreviousCheckpointIsIntact) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1);
  }
  restart(GetParam().failpoint);
  TinyRun run(daemon_.socket());
  const auto report = run.commit(20, 2).get();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().exit, GetParam().exit);
  EXPECT_THAT(report.error().message, HasSubstr(GetParam().says));
  EXPECT_THAT(report.error().message, HasSubstr("the store is '" + daemon_.state_dir() +
                                                "', earlier checkpoints in it are intact"));
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10"));
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 10, 1), "");
  // The same run goes on.
  commit_ok(run, 30, 3);
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 30, 3), "");
}

// Flushes of a commit: 1 state directory, 2 user's, 3 model, 4 optimizer, 5 state, 6 manifest, 7
// the step's directory, 8 the run's. Each fails once: a flush that was tried again would succeed.
INSTANTIATE_TEST_SUITE_P(
    Of, ErrorTest,
    testing::Values(
        Failure{"ReservingNoSpace", "ckpt.fallocate=errno:ENOSPC", Exit::kCannotWrite,
                "reserve 1.5 MiB for model.safetensors of run 'tiny' step 20: No space left"},
        Failure{"ReservingTheSecondFile", "ckpt.fallocate=errno:ENOSPC@2", Exit::kCannotWrite,
                "optimizer.safetensors of run 'tiny' step 20: No space left"},
        Failure{"ReservingQuota", "ckpt.fallocate=errno:EDQUOT", Exit::kCannotWrite,
                "quota exceeded"},
        Failure{"WritingNoSpace", "ckpt.write=errno:ENOSPC@2", Exit::kCannotWrite,
                "write model.safetensors of run 'tiny' step 20: No space left"},
        Failure{"WritingIo", "ckpt.write=errno:EIO@3", Exit::kIo,
                "write optimizer.safetensors of run 'tiny' step 20: Input/output error"},
        Failure{"FlushingModel", "ckpt.fsync=errno:EIO@3", Exit::kIo,
                "flush model.safetensors of run 'tiny' step 20 to disk: Input/output error"},
        Failure{"FlushingManifest", "ckpt.fsync=errno:EIO@6", Exit::kIo,
                "flush MANIFEST.json of run 'tiny' step 20 to disk: Input/output error"},
        Failure{"FlushingDirectory", "ckpt.fsync=errno:EIO@7", Exit::kIo,
                "the directory of run 'tiny' step 20 to disk: Input/output error"},
        Failure{"FlushingRun", "ckpt.fsync=errno:EIO@8", Exit::kIo,
                "flush run 'tiny' to disk: Input/output error"},
        Failure{"Renaming", "ckpt.rename=errno:EIO", Exit::kIo, "publish run 'tiny' step-20"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(StoreFaultTest, FailuresInARowAreShownUntilACheckpointWorks) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  restart("ckpt.fallocate=errno:ENOSPC@1,ckpt.fsync=errno:EIO@5");
  TinyRun run(daemon_.socket());
  const auto failed = [&] {
    const auto info = client::query_info(daemon_.socket());
    return info && info->runs.size() == 1 ? static_cast<int>(info->runs[0].failed_checkpoints) : -1;
  };
  EXPECT_EQ(failed(), 0);
  ASSERT_FALSE(run.commit(10, 1).get());
  EXPECT_EQ(failed(), 1);
  ASSERT_FALSE(run.commit(20, 2).get());
  EXPECT_EQ(failed(), 2);
  commit_ok(run, 30, 3);
  EXPECT_EQ(failed(), 0);
}

/// Runs `body` in a process with mounts of its own; false where the kernel does not let us.
template <typename Body>
bool in_private_mounts(const Body& body) {
  constexpr int kRefused = 77;
  const pid_t pid = ::fork();
  if (pid == 0) {
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    bool entered = ::unshare(CLONE_NEWNS) == 0;
    if (!entered && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
      std::ofstream("/proc/self/gid_map") << gid << " " << gid << " 1";
      entered = true;
    }
    if (!entered || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      ::_exit(kRefused);
    }
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) return false;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  return true;
}

/// A small file system of its own as the state directory.
class SmallDiskTest : public StoreFaultTest {
 protected:
  // A checkpoint takes 3.1 MiB: two fit, a third does not.
  static bool mount_store(const std::string& dir, unsigned long flags) {
    return ::mount("tmpfs", dir.c_str(), "tmpfs", flags, "size=7m,mode=0700") == 0;
  }
};

TEST_F(SmallDiskTest, FullDiskFailsTheCommitAndRoomLetsTheNextOneIn) {
  daemon_.stop(SIGTERM);
  const bool possible = in_private_mounts([&] {
    ASSERT_TRUE(mount_store(daemon_.state_dir(), 0));
    daemon_.start();
    {
      TinyRun run(daemon_.socket());
      commit_ok(run, 10, 1);
      commit_ok(run, 20, 2);
      for (int attempt = 0; attempt < 2; ++attempt) {
        const auto report = run.commit(30, 3).get();
        ASSERT_FALSE(report);
        EXPECT_EQ(report.error().code, Code::kResourceExhausted);
        EXPECT_EQ(report.error().exit, Exit::kCannotWrite);
        EXPECT_THAT(report.error().message, HasSubstr("No space left on device"));
        EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10", "step-20"));
      }
      expect_checkpoint(client::kNewestStep, 20, 2);
      expect_checkpoint(10, 10, 1);
      std::filesystem::remove_all(run_dir() + "/step-10");
      commit_ok(run, 40, 4);
      EXPECT_EQ(expect_checkpoint(client::kNewestStep, 40, 4), "");
    }
    daemon_.stop(SIGTERM);
  });
  if (!possible) GTEST_SKIP() << "no mount namespace for this user";
}

TEST_F(SmallDiskTest, ReadOnlyStoreFailsTheCommitUntilItIsWritableAgain) {
  daemon_.stop(SIGTERM);
  const bool possible = in_private_mounts([&] {
    ASSERT_TRUE(mount_store(daemon_.state_dir(), 0));
    daemon_.start();
    {
      TinyRun run(daemon_.socket());
      commit_ok(run, 10, 1);
      ASSERT_TRUE(mount_store(daemon_.state_dir(), MS_REMOUNT | MS_RDONLY)) << errno;
      const auto report = run.commit(20, 2).get();
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().exit, Exit::kCannotWrite);
      EXPECT_THAT(report.error().message, HasSubstr("Read-only file system"));
      EXPECT_EQ(expect_checkpoint(client::kNewestStep, 10, 1), "");
      ASSERT_TRUE(mount_store(daemon_.state_dir(), MS_REMOUNT)) << errno;
      commit_ok(run, 30, 3);
      EXPECT_EQ(expect_checkpoint(client::kNewestStep, 30, 3), "");
    }
    daemon_.stop(SIGTERM);
  });
  if (!possible) GTEST_SKIP() << "no mount namespace for this user";
}

}  // namespace
}  // namespace npu::fault
