#include "daemon/collectives/kick_limit.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

constexpr uint64_t kStart = 5'000'000'000;

TEST(KickLimit, AThousandInARowForNothingMuteForASecond) {
  KickLimit sut;
  for (uint32_t i = 0; i < KickLimit::kUselessInARow; ++i) sut.useless(kStart + i);
  EXPECT_FALSE(sut.muted(kStart + 1000));
  sut.useless(kStart + 1000);
  EXPECT_TRUE(sut.muted(kStart + 1001));
  EXPECT_FALSE(sut.muted(kStart + 1000 + KickLimit::kWindowNs));
}

TEST(KickLimit, ASubmissionStartsTheCountAgain) {
  KickLimit sut;
  for (uint32_t i = 0; i < 10 * KickLimit::kUselessInARow; ++i) {
    sut.useless(kStart + i);
    if (i % 2 == 0) sut.useful();
  }
  EXPECT_FALSE(sut.muted(kStart + 10 * KickLimit::kUselessInARow));
}

TEST(KickLimit, SlowOnesAreNotCountedTogether) {
  KickLimit sut;
  uint64_t now = kStart;
  for (uint32_t i = 0; i < 5 * KickLimit::kUselessInARow; ++i, now += 2'000'000) sut.useless(now);
  EXPECT_FALSE(sut.muted(now));
}

}  // namespace
}  // namespace npu::daemon
