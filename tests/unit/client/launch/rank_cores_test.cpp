#include <gtest/gtest.h>

#include "client/launch/cores.hpp"

namespace npu::client {
namespace {

using Cores = std::vector<int>;

TEST(RankCores, RanksThatShareEvenlyStayInBlocks) {
  EXPECT_EQ(rank_cores(8, 1, {0, 1}), (Cores{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(rank_cores(4, 1, {3, 7}), (Cores{3, 3, 7, 7}));
  EXPECT_EQ(rank_cores(4, 1, {2, 4, 6, 8}), (Cores{2, 4, 6, 8}));
}

TEST(RankCores, OthersGoWhereTheKernelLikes) {
  EXPECT_EQ(rank_cores(8, 1, {5}), Cores(8, -1)) << "one processor";
  EXPECT_EQ(rank_cores(3, 1, {0, 1}), Cores(3, -1)) << "one would have two ranks, the other one";
  EXPECT_EQ(rank_cores(2, 1, {0, 1, 2, 3}), Cores(2, -1)) << "two processors each";
  EXPECT_EQ(rank_cores(8, 2, {0, 1}), Cores(8, -1)) << "two threads each";
}

}  // namespace
}  // namespace npu::client
