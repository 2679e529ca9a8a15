// What dead writers leave is removed or restored; what lives or is foreign stays.
#include <gmock/gmock.h>

#include "daemon/checkpoint/names.hpp"
#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class SweepTest : public StoreFixture {
 protected:
  SweepTest() : sut(open_store()) { commit_ok(sut, saved_->snapshot); }
  void leave(const std::string& name) {
    std::filesystem::create_directories(run_dir() + "/" + name);
    std::ofstream(run_dir() + "/" + name + "/model.safetensors") << "half";
  }
  std::unique_ptr<Staged> saved_ = staged(10);
  CheckpointStore sut;
};

TEST_F(SweepTest, RemovesLeftoversAndNothingElse) {
  leave(temp_name("step-11", 1));
  leave("notes");
  std::ofstream(run_dir() + "/" + temp_name("LATEST", 2)) << "step-11\n";
  std::ofstream(state_dir() + "/README") << "not a uid";
  const auto report = sut.sweep();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->removed, 2U);
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "notes", "step-10"));
}

TEST_F(SweepTest, LeavesARunThatALiveWriterHolds) {
  const std::string temp = temp_name("step-11", 1);
  leave(temp);
  const UniqueFd writer(::open(run_dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(FileOps::system().try_lock(writer.get()), 0);
  EXPECT_EQ(sut.sweep()->removed, 0U);
  EXPECT_THAT(names(run_dir()), Contains(temp));
}

TEST_F(SweepTest, RestoresWhatWasSetAsideAndNotReplaced) {
  std::filesystem::rename(step_dir(10), run_dir() + "/" + aside_name("step-10", 9));
  EXPECT_EQ(sut.sweep()->restored, 1U);
  const auto checkpoint = sut.open_newest_valid(kUid, kRun);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  expect_same(*checkpoint, saved_->snapshot);
}

TEST_F(SweepTest, RemovesWhatWasSetAsideAndReplaced) {
  const std::string aside = aside_name("step-10", 9);
  leave(aside);
  EXPECT_EQ(sut.sweep()->removed, 1U);
  EXPECT_THAT(names(run_dir()), Not(Contains(aside)));
}

TEST_F(SweepTest, NextCommitRemovesLeftoversOfItsRun) {
  leave(temp_name("step-11", 1));
  commit_ok(sut, staged(12)->snapshot);
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-10", "step-12"));
}

TEST_F(SweepTest, WhatCannotBeRemovedIsAWarning) {
  std::filesystem::create_directories(run_dir() + "/" + temp_name("step-11", 1) + "/nested");
  const auto report = sut.sweep();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->warnings.size(), 1U);
  EXPECT_EQ(report->warnings[0].run, kRun);
}

}  // namespace
}  // namespace npu::daemon
