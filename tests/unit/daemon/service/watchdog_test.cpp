#include "daemon/service/watchdog.hpp"

#include <gtest/gtest.h>

#include <array>

namespace npu::daemon {
namespace {

using std::chrono::seconds;

class WatchdogTest : public testing::Test {
 protected:
  /// The verdict after another period.
  Watchdog::Verdict later() {
    now_ += seconds(15);
    return sut_.look(now_);
  }
  Pulse coordinator_{"npud-coord"}, helper_{"npud-engine"};
  const std::array<const Pulse*, 2> pulses_{&coordinator_, &helper_};
  Clock::time_point now_ = Clock::now();
  Watchdog sut_{seconds(60), pulses_, now_};
};

TEST_F(WatchdogTest, PetsFourTimesInItsLimit) {
  EXPECT_TRUE(sut_.look(now_).pet);
  EXPECT_FALSE(sut_.look(now_ + seconds(14)).pet);
  EXPECT_TRUE(sut_.look(now_ + seconds(15)).pet);
  EXPECT_EQ(sut_.next(), now_ + seconds(30));
}

TEST_F(WatchdogTest, ThreadsWithoutWorkNeedNotGetOn) {
  coordinator_.beat();
  coordinator_.rest();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(later().pet);
}

TEST_F(WatchdogTest, AThreadThatWorksAndGetsOnIsWell) {
  for (int i = 0; i < 3; ++i) {
    coordinator_.beat();
    EXPECT_TRUE(later().pet);
  }
}

TEST_F(WatchdogTest, AThreadThatStaysInItsRoundStopsThePets) {
  helper_.beat();
  EXPECT_TRUE(later().pet) << "it has begun a round since";
  coordinator_.beat();
  const auto stuck = later();
  EXPECT_FALSE(stuck.pet);
  EXPECT_EQ(stuck.stuck, "npud-engine");
  const auto both = later();
  EXPECT_FALSE(both.pet);
  EXPECT_EQ(both.stuck, "npud-coord, npud-engine");
  coordinator_.rest();
  helper_.beat();
  EXPECT_TRUE(later().pet) << "they get on again";
}

}  // namespace
}  // namespace npu::daemon
