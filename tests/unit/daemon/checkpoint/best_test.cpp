// BEST: names the best commit, survives rotation, and names nothing once that commit is gone.
#include <gmock/gmock.h>

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BestTest : public StoreFixture {
 protected:
  void commit_step(CheckpointStore& store, uint64_t step, bool best, uint32_t keep = 2) {
    auto s = staged(step, static_cast<uint32_t>(step));
    s->snapshot.best = best;
    s->snapshot.keep = keep;
    commit_ok(store, s->snapshot);
  }

  std::vector<uint64_t> best_steps(CheckpointStore& store) {
    std::vector<uint64_t> steps;
    const auto all = store.list(kUid, kRun);
    EXPECT_TRUE(all) << all.error().message;
    for (const CheckpointInfo& c : *all) {
      if (c.best) steps.push_back(c.step);
    }
    return steps;
  }
};

TEST_F(BestTest, OutlivesRotationUntilThereIsABetterOne) {
  auto sut = open_store();
  commit_step(sut, 1, true);
  for (const uint64_t step : {2U, 3U, 4U, 5U}) commit_step(sut, step, false);
  EXPECT_THAT(names(run_dir()), ElementsAre("BEST", "LATEST", "step-1", "step-4", "step-5"));
  EXPECT_EQ(slurp(run_dir() + "/BEST"), "step-1 1\n");
  EXPECT_THAT(best_steps(sut), ElementsAre(1));
  EXPECT_EQ(sut.open_best(kUid, kRun)->manifest.step, 1U);
  EXPECT_EQ(sut.open_newest_valid(kUid, kRun)->manifest.step, 5U);

  commit_step(sut, 6, true);
  EXPECT_THAT(names(run_dir()), ElementsAre("BEST", "LATEST", "step-5", "step-6"));
  EXPECT_EQ(sut.open_best(kUid, kRun)->manifest.step, 6U);
}

TEST_F(BestTest, IsFoundAgainByAnotherDaemon) {
  {
    auto before = open_store();
    commit_step(before, 1, true);
    commit_step(before, 2, false);
  }
  auto sut = open_store();
  EXPECT_TRUE(sut.sweep());
  EXPECT_EQ(sut.open_best(kUid, kRun)->manifest.step, 1U);
}

TEST_F(BestTest, StepThatWasReplacedIsNotBestAnyMore) {
  auto sut = open_store();
  commit_step(sut, 1, true);
  commit_step(sut, 1, false);  // the run was started from scratch and is not as good yet
  EXPECT_THAT(best_steps(sut), ElementsAre());
  const auto got = sut.open_best(kUid, kRun);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kNotFound);
  EXPECT_THAT(got.error().message, HasSubstr("has no best checkpoint"));
  commit_step(sut, 1, true);
  EXPECT_THAT(best_steps(sut), ElementsAre(1));
}

TEST_F(BestTest, NonsenseInTheFileNamesNothing) {
  auto sut = open_store();
  commit_step(sut, 1, true);
  for (const char* text : {"", "\n", "step-1", "step-1 1", "step-1 2\n", "../../x 1\n",
                           "step-99999999999999999999 1\n", "step-1 1\nstep-1 1\n"}) {
    std::ofstream(run_dir() + "/BEST") << text;
    EXPECT_THAT(best_steps(sut), ElementsAre()) << text;
    EXPECT_FALSE(sut.open_best(kUid, kRun)) << text;
  }
  std::ofstream(run_dir() + "/BEST") << std::string(1 << 20, 'x');
  EXPECT_FALSE(sut.open_best(kUid, kRun));
  std::filesystem::remove(run_dir() + "/BEST");
  std::filesystem::create_symlink(run_dir() + "/LATEST", run_dir() + "/BEST");
  EXPECT_FALSE(sut.open_best(kUid, kRun));
}

TEST_F(BestTest, DamagedBestIsAnErrorAndNotAnotherOne) {
  auto sut = open_store();
  commit_step(sut, 1, true);
  commit_step(sut, 2, false);
  const std::string model = step_dir(1) + "/model.safetensors";
  flip_byte(model, std::filesystem::file_size(model) - 1);
  const auto got = sut.open_best(kUid, kRun);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kDataLoss);
}

// A BEST that cannot be read is not one that is missing: rotation leaves everything alone then.
TEST_F(BestTest, RotationSparesTheBestWhenBestCannotBeRead) {
  const auto probe = [&](uint64_t fail_at, std::string* call) {
    std::filesystem::remove_all(state_dir());
    FaultyOps ops;
    auto sut = open_store(&ops);
    commit_step(sut, 1, true, 1);
    ops.fail_at = ops.calls + fail_at;
    ops.error = EIO;
    auto s = staged(2, 2);
    s->snapshot.keep = 1;
    static_cast<void>(sut.commit(s->snapshot));
    *call = ops.failed_call;
    ops.fail_at = 0;
    const auto best = sut.open_best(kUid, kRun);
    EXPECT_TRUE(best && best->manifest.step == 1U) << "after " << *call << " number " << fail_at;
  };
  for (uint64_t at = 1;; ++at) {
    std::string call;
    probe(at, &call);
    if (call.empty()) break;
  }
}

}  // namespace
}  // namespace npu::daemon
