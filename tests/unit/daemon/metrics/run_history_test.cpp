#include "daemon/metrics/run_history.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

TEST(RunHistories, ARestartIsAnAttemptAfterOneThatFailed) {
  RunHistories sut;
  sut.complete(1, "a");
  EXPECT_EQ(sut.find(1, "a").restarts, 0u);
  sut.complete(1, "a");
  EXPECT_EQ(sut.find(1, "a").restarts, 0u) << "the one before ended in order";
  sut.failed(1, "a");
  sut.failed(1, "a");
  sut.complete(1, "a");
  EXPECT_EQ(sut.find(1, "a").restarts, 1u);
  EXPECT_EQ(sut.find(2, "a").restarts, 0u) << "another user's";
}

TEST(RunHistories, CheckpointsSayWhenAndHowFarApart) {
  RunHistories sut;
  sut.checkpoint(1, "a", 100, 1000);
  EXPECT_EQ(sut.find(1, "a").interval_s, 0);
  sut.checkpoint(1, "a", 200, 1060.5);
  sut.checkpoint_failed(1, "a");
  const RunHistory found = sut.find(1, "a");
  EXPECT_EQ(found.checkpoints, 2u);
  EXPECT_EQ(found.failed_checkpoints, 1u);
  EXPECT_EQ(found.last_bytes, 200u);
  EXPECT_EQ(found.last_success_unix, 1060.5);
  EXPECT_EQ(found.interval_s, 60.5);
  sut.checkpoint(1, "a", 200, 1000);
  EXPECT_EQ(sut.find(1, "a").interval_s, 0) << "the clock was set back";
}

TEST(RunHistories, TheOneNotUsedForLongestIsForgotten) {
  RunHistories sut(2);
  sut.checkpoint(1, "a", 1, 10);
  sut.checkpoint(1, "b", 1, 10);
  sut.checkpoint(1, "a", 1, 20);
  sut.checkpoint(1, "c", 1, 30);
  EXPECT_EQ(sut.size(), 2u);
  EXPECT_EQ(sut.find(1, "a").checkpoints, 2u);
  EXPECT_EQ(sut.find(1, "b").checkpoints, 0u);
  EXPECT_EQ(sut.find(1, "c").checkpoints, 1u);
}

}  // namespace
}  // namespace npu::daemon
