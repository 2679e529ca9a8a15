// F33: the trainer is killed while it fills a stage, when the snapshot is ready, while it is
// written. Filling is discarded; from then on the checkpoint becomes durable without it.
#include <sys/wait.h>

#include "store_fixture.hpp"

namespace npu::fault {
namespace {

class TrainerDeathTest : public StoreFaultTest {
 protected:
  /// A trainer in a process of its own that ends by SIGKILL, by its own doing.
  template <typename Body>
  void run_and_kill(const Body& body) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      body();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  bool has_step(int64_t step) {
    const auto all = client::list_checkpoints(daemon_.socket(), "tiny", false);
    return all && std::ranges::any_of(*all, [&](const auto& c) { return c.step == step; });
  }

  /// Nothing of the dead trainer is left in the daemon, and the next one works.
  void expect_next_commit(int64_t step, size_t open_files) {
    // One more: the flight recorder of the run that is over, for `npu ps`.
    EXPECT_TRUE(holds_soon([&] { return open_fds(daemon_.pid()) <= open_files + 1; }))
        << open_fds(daemon_.pid()) << " open files, before " << open_files;
    TinyRun run(daemon_.socket());
    commit_ok(run, step, 9);
    EXPECT_EQ(expect_checkpoint(client::kNewestStep, step, 9), "");
  }
};

TEST_F(TrainerDeathTest, FillingIsDiscarded) {
  const size_t open_files = open_fds(daemon_.pid());
  run_and_kill([&] {
    TinyRun run(daemon_.socket());
    (void)run.commit(10, 1).get();
    run.stage(2);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10"));
  expect_checkpoint(client::kNewestStep, 10, 1);
  expect_next_commit(30, open_files);
}

TEST_F(TrainerDeathTest, ReadySnapshotBecomesDurable) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  restart("ckpt.after_mkdir=sleep:400ms");
  const size_t open_files = open_fds(daemon_.pid());
  run_and_kill([&] {
    TinyRun run(daemon_.socket());
    TinyRun::Wanted wanted;
    auto first = run.commit(10, 1, wanted);
    // While this one is written (slowly) the daemon takes the next one. Both come from one arena,
    // so it says the same.
    auto second = run.commit(20, 1, wanted);
    if (!holds_soon([&] { return has_leftovers(); })) ::_exit(1);
    // Two answers later whatever was sent before has been read.
    (void)client::query_info(daemon_.socket());
    (void)client::query_info(daemon_.socket());
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_TRUE(holds_soon([&] { return has_step(20); }));
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 20, 1), "");
  expect_checkpoint(10, 10, 1);
  expect_next_commit(30, open_files);
}

TEST_F(TrainerDeathTest, WriteInProgressIsFinished) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  restart("ckpt.after_piece=stop");
  const size_t open_files = open_fds(daemon_.pid());
  run_and_kill([&] {
    TinyRun run(daemon_.socket());
    auto report = run.commit(10, 1);
    if (!holds_soon([&] { return state_of(daemon_.pid()) == 'T'; })) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_EQ(::kill(daemon_.pid(), SIGCONT), 0);
  EXPECT_TRUE(holds_soon([&] { return has_step(10); }));
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 10, 1), "");
  expect_next_commit(30, open_files);
}

}  // namespace
}  // namespace npu::fault
