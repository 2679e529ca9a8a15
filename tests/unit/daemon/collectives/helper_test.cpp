#include "daemon/collectives/helper.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

TEST(HelpersToShare, ARunThatIsAloneHasThemAll) {
  EXPECT_EQ(helpers_to_share(1, 1, 2), 1u);
  EXPECT_EQ(helpers_to_share(1, 7, 8), 7u);
  EXPECT_EQ(helpers_to_share(0, 7, 8), 7u);
}

TEST(HelpersToShare, SeveralRunsLeaveOneCoreToRanks) {
  EXPECT_EQ(helpers_to_share(2, 1, 2), 0u);
  EXPECT_EQ(helpers_to_share(2, 3, 4), 2u);
  EXPECT_EQ(helpers_to_share(3, 7, 8), 6u);
  EXPECT_EQ(helpers_to_share(2, 7, 16), 7u) << "there are cores enough";
  EXPECT_EQ(helpers_to_share(2, 3, 1), 0u);
}

}  // namespace
}  // namespace npu::daemon
