#include "shm/base/rank_list.hpp"

#include <gtest/gtest.h>

namespace npu {
namespace {

TEST(RankList, JoinsNeighbours) {
  EXPECT_EQ(rank_list(0b1), "0");
  EXPECT_EQ(rank_list(0b1010), "1,3");
  EXPECT_EQ(rank_list(0b10111), "0-2,4");
  EXPECT_EQ(rank_list(0xFF), "0-7");
}

TEST(RankList, TakesEveryMask) {
  EXPECT_EQ(rank_list(0), "");
  EXPECT_EQ(rank_list(1U << 31), "31");
  EXPECT_EQ(rank_list(~0U), "0-31");
}

}  // namespace
}  // namespace npu
