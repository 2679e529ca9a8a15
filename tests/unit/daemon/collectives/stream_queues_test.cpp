#include "daemon/collectives/stream_queues.hpp"

#include <gtest/gtest.h>

#include "daemon/collectives/pair_matcher.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {
namespace {

Pending& put(StreamQueues& sut, uint32_t rank, uint64_t ticket, uint8_t stream,
             uint32_t flags = 0) {
  Pending* p = sut.claim(rank, ticket);
  NPU_CHECK(p != nullptr);
  p->s = {};
  p->s.ticket = ticket;
  p->s.stream = stream;
  p->s.flags = flags;
  sut.add(*p);
  return *p;
}

TEST(StreamQueues, OnlyTheOldestOfAStreamIsFirst) {
  StreamQueues sut(2);
  Pending& a = put(sut, 0, 0, 0);
  Pending& b = put(sut, 0, 1, 0);
  Pending& other = put(sut, 0, 2, 3);
  Pending& peer = put(sut, 1, 0, 0);
  EXPECT_TRUE(sut.first(a));
  EXPECT_FALSE(sut.first(b));
  EXPECT_TRUE(sut.first(other));
  EXPECT_TRUE(sut.first(peer));
  EXPECT_EQ(&sut.front(b), &a);
  sut.remove(a, 17);
  EXPECT_TRUE(sut.first(b));
  EXPECT_EQ(sut.last_removed_ns(b), 17u);
  EXPECT_EQ(sut.size(0), 2u);
}

TEST(StreamQueues, ABatchIsFirstTogetherAndGoesInAnyOrder) {
  StreamQueues sut(1);
  Pending& a = put(sut, 0, 0, 1, shm::kFlagJoined);
  Pending& b = put(sut, 0, 1, 1, shm::kFlagJoined);
  Pending& c = put(sut, 0, 2, 1);
  Pending& after = put(sut, 0, 3, 1);
  for (const Pending* p : {&a, &b, &c}) EXPECT_TRUE(sut.first(*p));
  EXPECT_FALSE(sut.first(after));
  EXPECT_EQ(sut.next_of_batch(a), &b);
  EXPECT_EQ(sut.next_of_batch(c), nullptr);
  sut.remove(b, 1);
  EXPECT_EQ(sut.next_of_batch(a), &c);
  sut.remove(c, 1);
  EXPECT_FALSE(sut.first(after));
  sut.remove(a, 1);
  EXPECT_TRUE(sut.first(after));
}

TEST(StreamQueues, ASlotIsNotGivenTwice) {
  StreamQueues sut(1);
  Pending& a = put(sut, 0, 5, 0);
  EXPECT_EQ(sut.claim(0, 5 + shm::kQueueDepth), nullptr);
  sut.remove(a, 1);
  EXPECT_NE(sut.claim(0, 5 + shm::kQueueDepth), nullptr);
}

TEST(PairMatcher, PairsInOrderForEachSourceDestinationAndCommunicator) {
  StreamQueues queues(3);
  PairMatcher sut;
  uint64_t ticket[3] = {};
  const auto post = [&](uint32_t rank, shm::Op op, uint32_t peer,
                        uint32_t communicator) -> Pending& {
    Pending& p = put(queues, rank, ticket[rank]++, 0);
    p.s.op = static_cast<uint8_t>(op);
    p.s.communicator = communicator;
    sut.add(p, peer);
    return p;
  };
  Pending& first = post(0, shm::Op::kSend, 1, 0);
  Pending& second = post(0, shm::Op::kSend, 1, 0);
  post(0, shm::Op::kSend, 2, 0);
  Pending& other = post(1, shm::Op::kRecv, 0, 64);  // another communicator: no partner yet
  EXPECT_TRUE(sut.matched().empty());
  Pending& recv = post(1, shm::Op::kRecv, 0, 0);
  ASSERT_EQ(sut.matched().size(), 1u);
  EXPECT_EQ(sut.matched()[0].send, &first);
  EXPECT_EQ(sut.matched()[0].recv, &recv);
  post(1, shm::Op::kRecv, 0, 0);
  ASSERT_EQ(sut.matched().size(), 2u);
  EXPECT_EQ(sut.matched()[1].send, &second);
  EXPECT_EQ(sut.unmatched(1).size(), 1u);
  EXPECT_EQ(sut.unmatched(1)[0].pending, &other);
  EXPECT_EQ(sut.unmatched(0).size(), 1u);
  sut.drop(other);
  EXPECT_TRUE(sut.unmatched(1).empty());
}

}  // namespace
}  // namespace npu::daemon
