#include "shm/base/clock.hpp"

#include <gtest/gtest.h>

namespace npu {
namespace {

TEST(Deadline, ZeroLimitIsNever) {
  const Deadline sut = Deadline::after(milliseconds(0));
  EXPECT_TRUE(sut.is_never());
  EXPECT_FALSE(sut.passed());
  EXPECT_EQ(sut.remaining(milliseconds(100)), milliseconds(100));
}

TEST(Deadline, RemainingIsClampedToTheSlice) {
  const Deadline sut = Deadline::after(std::chrono::hours(1));
  EXPECT_EQ(sut.remaining(milliseconds(100)), milliseconds(100));
  const Deadline past = Deadline::after(nanoseconds(1));
  while (!past.passed()) {
  }
  EXPECT_EQ(past.remaining(milliseconds(100)).count(), 0);
}

}  // namespace
}  // namespace npu
