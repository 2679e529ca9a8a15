#include "client/launch/restart.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace npu::client {
namespace {

TEST(WorthRestarting, WhatMayPassIsAndWhatComesAgainIsNot) {
  for (const int code : {69, 70, 71, 74, 75, 76, 128 + SIGKILL, 128 + SIGSEGV, 1, 127}) {
    EXPECT_TRUE(worth_restarting(code)) << code;
  }
  for (const int code : {0, 64, 65, 66, 73, 77, 78, 80})
    EXPECT_FALSE(worth_restarting(code)) << code;
}

TEST(RestartBudget, WaitsDoubleUpToHalfAMinuteAndEnd) {
  const RestartPolicy policy{.max_restarts = 7};
  RestartBudget sut(policy);
  for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
    const auto wait = sut.take();
    ASSERT_TRUE(wait);
    EXPECT_EQ(*wait, milliseconds(1000 * seconds));
  }
  EXPECT_FALSE(sut.take());
  EXPECT_EQ(sut.restarts(), 7);
}

TEST(RestartBudget, NoneIsTheDefault) {
  const RestartPolicy policy;
  RestartBudget sut(policy);
  EXPECT_FALSE(sut.take());
}

TEST(RestartBudget, NewCheckpointGivesTheBudgetBack) {
  const RestartPolicy policy{.max_restarts = 2, .backoff = milliseconds(100)};
  RestartBudget sut(policy);
  sut.note_checkpoint(10);
  ASSERT_EQ(sut.take(), milliseconds(100));
  ASSERT_EQ(sut.take(), milliseconds(200));
  sut.note_checkpoint(20);
  EXPECT_EQ(sut.take(), milliseconds(100));
  EXPECT_EQ(sut.restarts(), 3);
  EXPECT_EQ(sut.fruitless(), 1);
}

TEST(RestartBudget, CheckpointOfAStepThatWasReachedBeforeIsNoProgress) {
  const RestartPolicy policy{.max_restarts = 1};
  RestartBudget sut(policy);
  sut.note_checkpoint(20);
  ASSERT_TRUE(sut.take());
  sut.note_checkpoint(20);
  sut.note_checkpoint(10);
  sut.note_checkpoint(-1);
  EXPECT_FALSE(sut.take());
}

TEST(RestartBudget, NoWaitStaysNoWait) {
  const RestartPolicy policy{.max_restarts = 3, .backoff = milliseconds(0)};
  RestartBudget sut(policy);
  EXPECT_EQ(sut.take(), milliseconds(0));
  EXPECT_EQ(sut.take(), milliseconds(0));
}

}  // namespace
}  // namespace npu::client
