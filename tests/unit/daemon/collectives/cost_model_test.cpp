#include "daemon/collectives/cost_model.hpp"

#include <gtest/gtest.h>

#include "daemon/collectives/helper.hpp"

namespace npu::daemon {
namespace {

using shm::Algorithm;

TEST(CostModel, AWishIsGranted) {
  const CostModel sut;
  EXPECT_EQ(sut.choose(Algorithm::kRing, 8, 1), Algorithm::kRing);
  EXPECT_EQ(sut.choose(Algorithm::kDirect, 8, 1), Algorithm::kDirect);
}

TEST(CostModel, AutoTakesWhatIsFasterAtThatSize) {
  CostModel sut;
  sut.alone = {.fixed_us = 1, .gbs = 10};
  sut.shared = {.fixed_us = 5, .gbs = 20};
  sut.ring = {.fixed_us = 50, .gbs = 40};
  EXPECT_EQ(sut.choose(Algorithm::kAuto, 8, 1000), Algorithm::kDirect);
  EXPECT_EQ(sut.choose(Algorithm::kAuto, 8, 100'000'000), Algorithm::kRing);
}

TEST(Calibrate, GivesPositiveSpeedsForAnyNumberOfThreads) {
  for (const size_t helpers_wanted : {0u, 1u, 3u}) {
    Parker coordinator;
    std::vector<std::unique_ptr<Helper>> helpers;
    for (size_t i = 0; i < helpers_wanted; ++i)
      helpers.push_back(std::make_unique<Helper>(coordinator));
    const CostModel sut = calibrate(helpers, coordinator);
    for (const Line& line : {sut.alone, sut.shared, sut.ring}) {
      EXPECT_GT(line.gbs, 0);
      EXPECT_GE(line.fixed_us, 0);
    }
    EXPECT_EQ(sut.share_bytes == UINT64_MAX, helpers_wanted == 0);
    EXPECT_FALSE(sut.text().empty());
  }
}

}  // namespace
}  // namespace npu::daemon
