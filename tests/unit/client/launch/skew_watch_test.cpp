#include "client/launch/skew_watch.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace npu::client {
namespace {

shm::TraceRecord record(const std::vector<uint64_t>& arrivals_ms) {
  shm::TraceRecord r;
  for (size_t rank = 0; rank < arrivals_ms.size(); ++rank) {
    r.arrival_ns[rank] = (1000 + arrivals_ms[rank]) * 1'000'000;
    r.members |= 1u << rank;
  }
  r.state = static_cast<uint8_t>(shm::TraceState::kDone);
  return r;
}

TEST(SkewWatch, NamesTheRankThatCameLastMostOften) {
  const std::vector<shm::TraceRecord> records = {record({0, 1, 5}), record({0, 3, 1}),
                                                 record({2, 0, 7}), record({1, 0, 4})};
  const auto skew = skew_of(records, 3);
  ASSERT_TRUE(skew);
  EXPECT_EQ(skew->last, 2);
  EXPECT_DOUBLE_EQ(skew->share, 0.75);
  EXPECT_DOUBLE_EQ(skew->lag_ms, (5 + 3 + 7 + 4) / 4.0);
  EXPECT_EQ(skew->rank_lag_ms, (std::vector<double>{0.75, 1, 4.25}));
}

TEST(SkewWatch, CollectivesOfSomeRanksOrNotOverDoNotCount) {
  shm::TraceRecord waiting = record({0, 9});
  waiting.state = static_cast<uint8_t>(shm::TraceState::kWaiting);
  shm::TraceRecord missing = record({0, 9});
  missing.arrival_ns[1] = 0;
  shm::TraceRecord one = record({0});
  EXPECT_FALSE(skew_of(std::vector{waiting, missing, one}, 2));
  EXPECT_FALSE(skew_of({}, 2));
  EXPECT_FALSE(skew_of(std::vector{record({0, 1})}, 1));
  EXPECT_FALSE(skew_of(std::vector{record({0, 1})}, 1000));
}

TEST(SkewWatch, NoDaemonIsNoSkew) {
  SkewWatch sut;
  EXPECT_FALSE(sut.sample("/nonexistent/npud.sock", "run", 2));
}

}  // namespace
}  // namespace npu::client
