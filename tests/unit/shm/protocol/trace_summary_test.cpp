#include "shm/trace_summary.hpp"

#include <gtest/gtest.h>

namespace npu::shm {
namespace {

TraceRecord three_ranks() {
  TraceRecord r;
  r.members = 0b1011;  // ranks 0, 1, 3
  r.arrival_ns[0] = 100;
  r.arrival_ns[1] = 400;
  r.arrival_ns[3] = 300;
  r.start_ns = 450;
  r.end_ns = 1000;
  return r;
}

TEST(TraceSummary, NamesTheLastToArriveAndMeasuresBothParts) {
  const TraceSummary sut = summarize(three_ranks(), 0);
  EXPECT_EQ(sut.arrived, 0b1011u);
  EXPECT_EQ(sut.first_ns, 100u);
  EXPECT_EQ(sut.last_ns, 400u);
  EXPECT_EQ(sut.straggler, 1u);
  EXPECT_EQ(sut.wait_ns, 350u);
  EXPECT_EQ(sut.run_ns, 550u);
}

TEST(TraceSummary, NamesTheLowestMissingRankWhileOthersWait) {
  TraceRecord r = three_ranks();
  r.arrival_ns[0] = r.arrival_ns[3] = r.start_ns = r.end_ns = 0;
  EXPECT_EQ(summarize(r, 0).straggler, 0u);
  EXPECT_EQ(summarize(r, 0).wait_ns, std::nullopt);
  EXPECT_EQ(summarize(r, 900).wait_ns, 500u);
  EXPECT_EQ(summarize(r, 900).run_ns, std::nullopt);
}

TEST(TraceSummary, WaitOfOneThatNeverStartedEndsWithIt) {
  TraceRecord r = three_ranks();
  r.start_ns = 0;
  EXPECT_EQ(summarize(r, 5000).wait_ns, 900u);
  EXPECT_EQ(summarize(r, 5000).run_ns, std::nullopt);
}

TEST(TraceSummary, RunningOneIsMeasuredUntilNow) {
  TraceRecord r = three_ranks();
  r.end_ns = 0;
  EXPECT_EQ(summarize(r, 2450).run_ns, 2000u);
  EXPECT_EQ(summarize(r, 0).run_ns, std::nullopt);
}

TEST(TraceSummary, ArrivalsOfOthersThanMembersDoNotCount) {
  TraceRecord r = three_ranks();
  r.arrival_ns[2] = 1;
  EXPECT_EQ(summarize(r, 0).first_ns, 100u);
}

TEST(TraceSummary, NobodyIsLateWhereOneRankIsAlone) {
  TraceRecord r = three_ranks();
  r.members = 1;
  EXPECT_EQ(summarize(r, 0).straggler, std::nullopt);
}

TEST(TraceSummary, TimesThatRunBackwardsGiveNoDuration) {
  TraceRecord r = three_ranks();
  r.start_ns = 50;
  r.end_ns = 20;
  EXPECT_EQ(summarize(r, 0).wait_ns, std::nullopt);
  EXPECT_EQ(summarize(r, 0).run_ns, std::nullopt);
}

}  // namespace
}  // namespace npu::shm
