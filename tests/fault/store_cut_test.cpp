// F34: the daemon is killed at each step of a commit. A new one finds the old checkpoint or the new
// one, whole; what was left behind is swept; the next commit works.
#include "store_fixture.hpp"

namespace npu::fault {
namespace {

enum class Found : uint8_t { kOld, kNew };

struct Cut {
  const char* point;
  int hit;
  Found found;
};
void PrintTo(const Cut& cut, std::ostream* os) { *os << cut.point << "@" << cut.hit; }

std::string test_name(const testing::TestParamInfo<Cut>& info) {
  std::string name = info.param.point + std::string("_") + std::to_string(info.param.hit);
  std::ranges::replace(name, '.', '_');
  return name;
}

std::string armed(const Cut& cut) {
  return std::string(cut.point) + "=kill@" + std::to_string(cut.hit);
}

class CutTest : public StoreFaultTest, public testing::WithParamInterface<Cut> {};

TEST_P(CutTest, OldOrNewCheckpointLoadsAndTheNextOneWorks) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1);
  }
  restart(armed(GetParam()));
  {
    TinyRun run(daemon_.socket());
    // Everything that a commit can do: BEST, LATEST, and the older one is rotated out.
    const auto report = run.commit(20, 2, {.keep = 1, .best = true}).get();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().exit, Exit::kNoDaemon) << report.error().message;
  }
  expect_killed();

  restart();
  EXPECT_FALSE(has_leftovers()) << testing::PrintToString(names());
  const bool is_new = GetParam().found == Found::kNew;
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, is_new ? 20 : 10, is_new ? 2 : 1), "");
  const auto left = names();
  if (std::ranges::find(left, "step-10") != left.end()) expect_checkpoint(10, 10, 1);
  TinyRun run(daemon_.socket());
  commit_ok(run, 30, 3);
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 30, 3), "");
}

INSTANTIATE_TEST_SUITE_P(
    At, CutTest,
    testing::Values(
        Cut{"ckpt.after_mkdir", 1, Found::kOld}, Cut{"ckpt.after_fallocate", 1, Found::kOld},
        Cut{"ckpt.after_piece", 1, Found::kOld},  // inside of the model
        Cut{"ckpt.after_fsync", 1, Found::kOld},  // the model
        Cut{"ckpt.after_piece", 3, Found::kOld},  // inside of the optimizer
        Cut{"ckpt.after_fsync", 2, Found::kOld},  // the optimizer
        Cut{"ckpt.after_fsync", 3, Found::kOld},  // the state
        Cut{"ckpt.after_fsync", 4, Found::kOld},  // the manifest
        Cut{"ckpt.after_dir_fsync", 1, Found::kOld}, Cut{"ckpt.after_rename", 1, Found::kNew},
        Cut{"ckpt.after_run_fsync", 1, Found::kNew}, Cut{"ckpt.durable", 1, Found::kNew},
        Cut{"ckpt.pointer_written", 1, Found::kNew},  // BEST
        Cut{"ckpt.pointer_written", 2, Found::kNew},  // LATEST
        Cut{"ckpt.before_rotation", 1, Found::kNew}, Cut{"ckpt.rotation_renamed", 1, Found::kNew},
        Cut{"ckpt.after_rotation", 1, Found::kNew}),
    test_name);

class ReplaceCutTest : public StoreFaultTest, public testing::WithParamInterface<Cut> {};

/// A run that was resumed from an older step reaches this one again.
TEST_P(ReplaceCutTest, TheStepIsTheOldOneOrTheNewOne) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1);
  }
  restart(armed(GetParam()));
  {
    TinyRun run(daemon_.socket());
    ASSERT_FALSE(run.commit(10, 2).get());
  }
  expect_killed();

  restart();
  EXPECT_FALSE(has_leftovers()) << testing::PrintToString(names());
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 10, GetParam().found == Found::kNew ? 2 : 1),
            "");
}

INSTANTIATE_TEST_SUITE_P(At, ReplaceCutTest,
                         testing::Values(Cut{"ckpt.after_dir_fsync", 1, Found::kOld},
                                         Cut{"ckpt.after_rename", 1, Found::kNew},
                                         Cut{"ckpt.after_run_fsync", 1, Found::kNew},
                                         Cut{"ckpt.durable", 1, Found::kNew}),
                         test_name);

TEST_F(StoreFaultTest, DaemonKilledTwiceAtTheSamePlaceIsSweptTwice) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1);
  }
  for (int i = 0; i < 2; ++i) {
    restart("ckpt.after_piece=kill");
    EXPECT_FALSE(has_leftovers());
    TinyRun run(daemon_.socket());
    ASSERT_FALSE(run.commit(20, 2).get());
    expect_killed();
    EXPECT_TRUE(has_leftovers());
  }
  restart();
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10"));
}

}  // namespace
}  // namespace npu::fault
