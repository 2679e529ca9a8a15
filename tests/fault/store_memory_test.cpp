// Checkpoints that the daemon keeps in memory: which one a resume gets, and when they are let go.
#include <sys/wait.h>

#include "store_fixture.hpp"

namespace npu::fault {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TinyRun::Wanted kInMemory = {.memory = true};

class MemoryCheckpointTest : public StoreFaultTest {
 protected:
  /// A trainer in a process of its own that ends by SIGKILL, by its own doing, when it has done
  /// that.
  template <typename Body>
  void run_and_kill(const Body& body) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      TinyRun run(daemon_.socket());
      body(run);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  [[nodiscard]] Result<client::CheckpointFiles> to_resume() const {
    return client::open_checkpoint(daemon_.socket(), "tiny", client::kResumeStep);
  }
  /// What `npu ckpt ls` lists: path, and a star for the one that a resume takes.
  [[nodiscard]] std::vector<std::string> listed() const {
    std::vector<std::string> rows;
    const auto all = client::list_checkpoints(daemon_.socket(), "tiny", true);
    if (!all) return rows;
    for (const auto& c : *all) {
      EXPECT_EQ(c.state, "valid");
      rows.push_back(c.path.substr(c.path.rfind("tiny/")) + (c.latest ? "*" : ""));
    }
    return rows;
  }
  /// Memory files of checkpoints that the daemon holds.
  [[nodiscard]] size_t kept_files() const {
    size_t n = 0;
    std::error_code gone;
    for (const auto& fd : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(daemon_.pid()) + "/fd", gone)) {
      const std::string target = std::filesystem::read_symlink(fd.path(), gone);
      n += target.find("memfd:model.safetensors") != std::string::npos ? 1 : 0;
    }
    return n;
  }
};

TEST_F(MemoryCheckpointTest, OutlivesItsTrainerAndOnlyAResumeGetsIt) {
  run_and_kill([](TinyRun& run) {
    (void)run.commit(10, 1).get();
    (void)run.commit(13, 2, kInMemory).get();
    (void)run.commit(16, 3, kInMemory).get();
  });
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 16, 3), "");
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 10, 1), "");
  EXPECT_FALSE(client::open_checkpoint(daemon_.socket(), "tiny", 16));
  EXPECT_EQ(to_resume()->path, "memory:tiny/step-16");
  EXPECT_THAT(listed(), ElementsAre("tiny/step-10", "tiny/step-16*"));
  EXPECT_THAT(names(), ElementsAre("LATEST", "step-10"));
  EXPECT_EQ(kept_files(), 1u);
}

TEST_F(MemoryCheckpointTest, WithoutAnyOnDiskItIsTheOnlyOneAndTouchesNoDisk) {
  run_and_kill([](TinyRun& run) { (void)run.commit(3, 2, kInMemory).get(); });
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 3, 2), "");
  EXPECT_FALSE(client::open_checkpoint(daemon_.socket(), "tiny", client::kNewestStep));
  EXPECT_THAT(listed(), ElementsAre("tiny/step-3*"));
  EXPECT_FALSE(std::filesystem::exists(run_dir()));
}

TEST_F(MemoryCheckpointTest, IsLetGoWhenANewerOneIsOnDisk) {
  TinyRun run(daemon_.socket());
  commit_ok(run, 13, 2, kInMemory);
  EXPECT_EQ(kept_files(), 1u);
  commit_ok(run, 16, 3);
  EXPECT_EQ(kept_files(), 0u);
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 16, 3), "");
  EXPECT_THAT(listed(), ElementsAre("tiny/step-16*"));
}

TEST_F(MemoryCheckpointTest, IsLetGoWhenItsRunEndsWell) {
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 13, 2, kInMemory);
  }
  EXPECT_TRUE(holds_soon([&] { return kept_files() == 0; }));
  EXPECT_FALSE(to_resume());
}

// `npu eval` has a run of the same name, too.
TEST_F(MemoryCheckpointTest, RunThatNeitherResumesNorSavesLeavesItAlone) {
  run_and_kill([](TinyRun& run) { (void)run.commit(13, 2, kInMemory).get(); });
  {
    TinyRun run(daemon_.socket());
    ASSERT_TRUE(run.attached());
  }
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 13, 2), "");
  {
    TinyRun run(daemon_.socket());
    EXPECT_TRUE(to_resume());
  }
  EXPECT_TRUE(holds_soon([&] { return kept_files() == 0; }))
      << "that one has resumed and ended well";
}

TEST_F(MemoryCheckpointTest, StaysThroughTheNextGenerationUntilThatMakesOne) {
  run_and_kill([](TinyRun& run) { (void)run.commit(13, 2, kInMemory).get(); });
  run_and_kill([](TinyRun& run) { (void)run.attached(); });
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 13, 2), "");
  run_and_kill([](TinyRun& run) { (void)run.commit(14, 4, kInMemory).get(); });
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 14, 4), "");
  EXPECT_EQ(kept_files(), 1u);
}

TEST_F(MemoryCheckpointTest, DeathOfTheDaemonFallsBackToTheDisk) {
  run_and_kill([](TinyRun& run) {
    (void)run.commit(10, 1).get();
    (void)run.commit(13, 2, kInMemory).get();
  });
  daemon_.stop(SIGKILL);
  daemon_.start();
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 10, 1), "");
}

// Another daemon with the same state directory went on with the run.
TEST_F(MemoryCheckpointTest, IsNotNewerThanWhatAnotherDaemonWroteSince) {
  run_and_kill([](TinyRun& run) {
    (void)run.commit(10, 1).get();
    (void)run.commit(13, 2, kInMemory).get();
  });
  {
    const test::DaemonProcess other({"--state-dir", daemon_.state_dir()});
    TinyRun run(other.socket());
    commit_ok(run, 12, 5);
  }
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 12, 5), "");
  EXPECT_THAT(listed(), ElementsAre("tiny/step-10", "tiny/step-12*"));
  EXPECT_EQ(kept_files(), 0u);
}

TEST_F(MemoryCheckpointTest, WithoutRoomItIsRefusedAndTheRunGoesOn) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  restart("ckpt.fallocate=errno:ENOSPC@5");  // behind the four files of the first
  TinyRun run(daemon_.socket());
  commit_ok(run, 10, 1);
  const auto refused = run.commit(13, 2, kInMemory).get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 10, 1), "");
  commit_ok(run, 16, 3, kInMemory);
  EXPECT_EQ(expect_checkpoint(client::kResumeStep, 16, 3), "");
  const auto info = client::query_info(daemon_.socket());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->runs[0].failed_checkpoints, 0u) << "of the disk none failed";
}

TEST_F(MemoryCheckpointTest, BestAndRotationAreTheDisksOwn) {
  TinyRun run(daemon_.socket());
  commit_ok(run, 10, 1, {.keep = 2, .best = true});
  for (int64_t step = 20; step <= 50; step += 10) {
    for (int64_t i = 1; i <= 3; ++i) commit_ok(run, step - 10 + i, 7, kInMemory);
    commit_ok(run, step, 2, {.keep = 2});
  }
  commit_ok(run, 53, 7, kInMemory);
  EXPECT_THAT(names(), ElementsAre("BEST", "LATEST", "step-10", "step-40", "step-50"));
  expect_checkpoint(client::kBestStep, 10, 1);
}

}  // namespace
}  // namespace npu::fault
