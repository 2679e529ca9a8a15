#include "daemon/log_limit.hpp"

#include <gmock/gmock.h>

namespace npu::daemon {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::Pair;

class LogLimitTest : public testing::Test {
 protected:
  /// How many of `n` lines are admitted now.
  size_t admitted(size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; ++i) count += sut_.admit("kind", now_) ? 1 : 0;
    return count;
  }
  LogLimit sut_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(LogLimitTest, AdmitsABurstThenARate) {
  EXPECT_EQ(admitted(100), 20u);
  now_ += seconds(1);
  EXPECT_EQ(admitted(100), 5u);
  now_ += seconds(3600);
  EXPECT_EQ(admitted(100), 20u);
}

TEST_F(LogLimitTest, TheNextLineCarriesTheCount) {
  EXPECT_EQ(admitted(27), 20u);
  now_ += seconds(1);
  EXPECT_EQ(sut_.admit("kind", now_), 7u);
  EXPECT_EQ(sut_.admit("kind", now_), 0u);
}

TEST_F(LogLimitTest, KindsDoNotTakeFromEachOther) {
  EXPECT_EQ(admitted(100), 20u);
  EXPECT_EQ(sut_.admit("another", now_), 0u);
}

TEST_F(LogLimitTest, WhatIsOverIsSaidOnce) {
  EXPECT_EQ(admitted(23), 20u);
  EXPECT_TRUE(sut_.over(now_).empty()) << "it goes on";
  now_ += seconds(1);
  EXPECT_THAT(sut_.over(now_), ElementsAre(Pair("kind", 3u)));
  EXPECT_TRUE(sut_.over(now_).empty());
}

}  // namespace
}  // namespace npu::daemon
