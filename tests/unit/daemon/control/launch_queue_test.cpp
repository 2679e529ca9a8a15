#include "daemon/control/queue/launch_queue.hpp"

#include <gtest/gtest.h>

namespace npu::daemon {
namespace {

constexpr int64_t kUser = 1000, kOther = 1001;

bool all(const Ticket&) { return true; }

Ticket ticket(uint64_t session, uint32_t devices, const std::string& run = "a",
              int64_t uid = kUser) {
  return {.session = session,
          .request = 1,
          .uid = uid,
          .pid = 1,
          .run = run,
          .devices = devices,
          .told = {}};
}

/// Sessions that got their devices, in order.
std::vector<uint64_t> granted(LaunchQueue& sut, uint32_t busy,
                              const std::function<bool(const Ticket&)>& may_have = all) {
  std::vector<uint64_t> sessions;
  for (const Ticket* t : sut.grant(busy, may_have)) sessions.push_back(t->session);
  return sessions;
}

using Sessions = std::vector<uint64_t>;

TEST(LaunchQueue, GivesFreeDevicesAtOnceAndBusyOnesLater) {
  LaunchQueue sut;
  sut.join(ticket(1, 0b0011));
  EXPECT_EQ(granted(sut, 0b0001), Sessions{}) << "all of them or none";
  EXPECT_EQ(granted(sut, 0b1100), Sessions{1});
  EXPECT_EQ(granted(sut, 0), Sessions{}) << "once";
}

TEST(LaunchQueue, NarrowOnesDoNotOvertakeAWideOne) {
  LaunchQueue sut;
  sut.join(ticket(1, 0b1111));
  sut.join(ticket(2, 0b0010, "b"));
  sut.join(ticket(3, 0b0011'0000, "c"));
  EXPECT_EQ(granted(sut, 0b0001), Sessions{3}) << "who wants other devices does not wait";
  EXPECT_EQ(sut.place(sut.tickets()[0]), 1u);
  EXPECT_EQ(sut.place(sut.tickets()[1]), 2u);
  EXPECT_EQ(sut.place(sut.tickets()[2]), 0u);
  EXPECT_EQ(sut.before(sut.tickets()[1]), 1u);
  EXPECT_EQ(granted(sut, 0), Sessions{1});
  EXPECT_EQ(granted(sut, 0), Sessions{}) << "what was given is kept, also before its ranks come";
  EXPECT_TRUE(sut.leave(1));
  EXPECT_FALSE(sut.leave(1));
  EXPECT_EQ(granted(sut, 0), Sessions{2});
}

TEST(LaunchQueue, WhoHasToWaitForItsOwnUserStandsInNobodysWay) {
  LaunchQueue sut;
  sut.join(ticket(1, 0b11));
  sut.join(ticket(2, 0b01, "b", kOther));
  EXPECT_EQ(granted(sut, 0, [](const Ticket& t) { return t.uid == kOther; }), Sessions{2});
  EXPECT_EQ(sut.in_the_way(1, kOther, "c", false), nullptr);
  EXPECT_EQ(sut.before(sut.tickets()[1]), 0u);
}

TEST(LaunchQueue, KeepsDevicesForTheRunThatGotThem) {
  LaunchQueue sut;
  sut.join(ticket(1, 0b01));
  sut.join(ticket(2, 0b10, "b"));
  ASSERT_EQ(granted(sut, 0b10), Sessions{1});
  EXPECT_EQ(sut.in_the_way(0, kUser, "a", false), nullptr);
  ASSERT_NE(sut.in_the_way(0, kUser, "other", false), nullptr) << "another run of the same user";
  ASSERT_NE(sut.in_the_way(0, kOther, "a", false), nullptr) << "another user's of the same name";
  EXPECT_EQ(sut.in_the_way(0, kOther, "a", true)->session, 1u) << "what is given is given";
  EXPECT_EQ(sut.in_the_way(1, kOther, "x", false)->session, 2u) << "it came before";
  EXPECT_EQ(sut.in_the_way(1, kOther, "x", true), nullptr) << "a run that forms came first";
  EXPECT_EQ(sut.in_the_way(2, kOther, "x", false), nullptr);
}

}  // namespace
}  // namespace npu::daemon
