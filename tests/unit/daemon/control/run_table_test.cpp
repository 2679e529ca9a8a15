#include "daemon/control/run_table.hpp"

#include <gmock/gmock.h>

namespace npu::daemon {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

Quota quota(uint64_t devices, uint64_t memory) {
  Quota q;
  q.most[static_cast<size_t>(QuotaKind::kDevices)] = devices;
  q.most[static_cast<size_t>(QuotaKind::kMemory)] = memory;
  return q;
}

JoinRequest join(const std::string& run, uint32_t world, uint32_t rank, uint32_t device,
                 const Quota& q, int64_t uid = 1000) {
  return {.run = run,
          .key = "k",
          .world = world,
          .rank = rank,
          .device = device,
          .arena_bytes = kMiB,
          .session = 10 + device,
          .uid = uid,
          .pid = 1,
          .quota = q};
}

TEST(RunTableQuota, ARunIsRefusedAtItsFirstRankIfItDoesNotFitWhole) {
  RunTable sut(8, 64 * kMiB);
  const Quota two = quota(2, 0);
  const auto wide = sut.join(join("wide", 4, 0, 0, two));
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().exit, Exit::kPermission);
  EXPECT_THAT(
      wide.error().message,
      HasSubstr(
          "attach 4 ranks of run 'wide': 4 devices are wanted, uid 1000 uses 0, the limit is 2"));
  EXPECT_TRUE(sut.runs().empty()) << "nothing of it is kept";
  EXPECT_EQ(sut.busy_devices(), 0u);
}

TEST(RunTableQuota, ARunThatFormsCountsWithAllItsRanks) {
  RunTable sut(8, 64 * kMiB);
  const Quota three = quota(3, 0);
  ASSERT_TRUE(sut.join(join("first", 2, 0, 0, three)));
  const auto second = sut.join(join("second", 2, 0, 4, three));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().exit, Exit::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr("uid 1000 uses 2, the limit is 3"));
  EXPECT_TRUE(sut.join(join("first", 2, 1, 1, three))) << "the other rank of the first";
  EXPECT_TRUE(sut.join(join("second", 2, 0, 4, three, 1001))) << "another user";
  EXPECT_EQ(sut.use_of(1000).devices, 2u);
}

TEST(RunTableQuota, DevicesThatWereGivenToALaunchCount) {
  RunTable sut(8, 64 * kMiB);
  JoinRequest request = join("a", 1, 0, 0, quota(2, 0));
  request.reserved_devices = 2;
  EXPECT_FALSE(sut.join(request));
  request.reserved_devices = 1;
  EXPECT_TRUE(sut.join(request));
}

TEST(RunTableQuota, MemoryOfAnAbortedRunCountsUntilItsProcessesHaveLeft) {
  RunTable sut(8, 64 * kMiB);
  const Quota three = quota(0, 3 * kMiB);
  auto first = sut.join(join("a", 2, 0, 0, three));
  ASSERT_TRUE(first);
  ASSERT_TRUE(sut.join(join("a", 2, 1, 1, three)));
  const auto more = sut.join(join("b", 2, 0, 2, three));
  ASSERT_FALSE(more);
  EXPECT_THAT(
      more.error().message,
      HasSubstr("2.0 MiB of device memory are wanted, uid 1000 uses 2.0 MiB, the limit is 3.0 MiB "
                "(quotas.memory of npud)"));
  daemon::Run& run = **first;
  run.state = shm::RunState::kAborted;
  sut.free_devices(run);
  sut.unname(run);
  EXPECT_EQ(sut.use_of(1000).devices, 0u) << "its devices are free at once";
  EXPECT_EQ(sut.use_of(1000).memory_bytes, 2 * kMiB);
  EXPECT_FALSE(sut.leave(run, 0));
  EXPECT_EQ(sut.use_of(1000).memory_bytes, kMiB);
  EXPECT_TRUE(sut.join(join("b", 2, 0, 2, three)));
}

// Commit 3 was being written when the daemon died; 4 to 8 were checks, and answered. The ranks send
// 3 again and then 9, one of them before the other sends 3.
TEST(OpenCommits, WhatWasAnsweredBehindAnOpenOneLeavesNoGap) {
  OpenCommits sut;
  for (const size_t rank : {0, 1}) {
    sut.made_before[rank] = 9;
    sut.open_before[rank] = 1U << (9 - 1 - 3);
    EXPECT_EQ(sut.next_of(static_cast<uint32_t>(rank), 0), 3u);
    EXPECT_EQ(sut.next_of(static_cast<uint32_t>(rank), 4), 9u);
  }
  CommitGathering* const third = sut.find(3);
  ASSERT_NE(third, nullptr);
  third->index = 3;
  third->arrived_mask = 1;
  CommitGathering* const ninth = sut.find(9);
  ASSERT_NE(ninth, nullptr);
  EXPECT_NE(ninth, third);
  ninth->index = 9;
  ninth->arrived_mask = 1;
  EXPECT_EQ(sut.find(3), third) << "the other rank's goes to the same";
}

TEST(OpenCommits, OnlySoManyAreOpenAtOnce) {
  OpenCommits sut;
  for (uint64_t index = 0; index < kOpenCommits; ++index) {
    CommitGathering* const place = sut.find(index);
    ASSERT_NE(place, nullptr);
    place->index = index;
    place->arrived_mask = 1;
  }
  EXPECT_EQ(sut.find(kOpenCommits), nullptr);
}

}  // namespace
}  // namespace npu::daemon
