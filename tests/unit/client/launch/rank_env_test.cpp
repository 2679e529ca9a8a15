#include "client/launch/rank_env.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::Contains;
using testing::Not;

TEST(RankEnvironment, SetsTheRankAndDropsForeignOnes) {
  const char* base[] = {"PATH=/bin", "RANK=7", "RANK_ID=7", "NPU_EVENT_FD=9", "NPU_PICTURES_FD=8", nullptr};
  const auto env =
      rank_environment({.rank = 2, .world = 4, .threads = 3, .socket = "/s", .run_key = "k"}, base);
  for (const char* wanted :
       {"PATH=/bin", "RANK=2", "LOCAL_RANK=2", "WORLD_SIZE=4", "NPUD_SOCKET=/s", "NPU_RUN_KEY=k",
        "OMP_WAIT_POLICY=passive", "OMP_NUM_THREADS=3"}) {
    EXPECT_THAT(env, Contains(wanted));
  }
  for (const char* gone : {"RANK=7", "RANK_ID=7", "NPU_EVENT_FD=9", "NPU_PICTURES_FD=8"}) {
    EXPECT_THAT(env, Not(Contains(gone)));
  }
}

TEST(RankEnvironment, WhatTheUserSaidAboutThreadsStands) {
  const char* base[] = {"OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=active", nullptr};
  const auto env = rank_environment({.threads = 3}, base);
  EXPECT_THAT(env, Contains("OMP_NUM_THREADS=1"));
  EXPECT_THAT(env, Not(Contains("OMP_NUM_THREADS=3")));
  EXPECT_THAT(env, Not(Contains("OMP_WAIT_POLICY=passive")));
}

TEST(RunKey, Is128BitsOfHexAndNeverTheSame) {
  const auto a = random_run_key(), b = random_run_key();
  ASSERT_TRUE(a && b);
  EXPECT_THAT(*a, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(a->size(), 32u);
  EXPECT_NE(*a, *b);
}

}  // namespace
}  // namespace npu::client
