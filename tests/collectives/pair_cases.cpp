// Point to point: pairing, order, batches, oneself, disagreements.
#include <cstring>

#include "tests/collectives/rank_body.hpp"

namespace npu::test {
namespace {

using client::PointToPoint;
using client::Stream;
using client::Work;
using Kind = PointToPoint::Kind;

// 31: first in, first out for each pair; small ones and large ones mixed.
std::string fifo(Rank& rank) {
  const uint32_t n = rank.size(), me = rank.id();
  auto* data = reinterpret_cast<uint32_t*>(rank.arena.data());
  constexpr int kMessages = 20;
  const auto count_of = [](int i) -> uint64_t {
    return i % 3 == 0 ? 4 : 1000 + 10u * static_cast<unsigned>(i);
  };
  for (uint32_t from = 0; from < n; ++from) {
    const uint32_t to = (from + 1) % n;
    if (from == to || (me != from && me != to)) continue;
    std::vector<Work> works;
    std::vector<std::vector<uint32_t>> small(kMessages, std::vector<uint32_t>(4));
    for (int i = 0; i < kMessages; ++i) {
      const uint64_t count = count_of(i);
      const bool is_small = count == 4;
      uint32_t* at = is_small ? small[static_cast<size_t>(i)].data() : data + i * 2000;
      for (uint64_t k = 0; k < count; ++k) {
        at[k] = me == from ? static_cast<uint32_t>(i) * 10'000u + static_cast<uint32_t>(k) : 0;
      }
      auto work = me == from ? rank.world.send(at, count, DType::kUint32, to)
                             : rank.world.recv(at, count, DType::kUint32, from);
      EXPECT_RANK(work);
      works.push_back(std::move(*work));
    }
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_RANK(works[static_cast<size_t>(i)].wait());
      const uint64_t last = count_of(i) - 1;
      const uint32_t* at = last == 3 ? small[static_cast<size_t>(i)].data() : data + i * 2000;
      EXPECT_RANK(at[last] == static_cast<uint32_t>(i) * 10'000u + last, "message {}", i);
    }
  }
  return {};
}

// 31: all send and all receive at once; whatever the order of items.
std::string batch_ring(Rank& rank) {
  const uint32_t n = rank.size(), me = rank.id();
  auto* out = reinterpret_cast<float*>(rank.arena.data());
  for (const uint64_t count : {1ul, 5ul, 3000ul, 100'000ul}) {
    float* in = out + count;
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(me * 10 + i % 7);
    PointToPoint items[] = {{Kind::kSend, out, count, DType::kFloat32, (me + 1) % n},
                            {Kind::kRecv, in, count, DType::kFloat32, (me + n - 1) % n}};
    if (me % 2 == 1) std::swap(items[0], items[1]);
    auto batch = rank.world.batch(items);
    EXPECT_RANK(batch, "{}", batch.error().message);
    const auto ended = batch->wait();
    EXPECT_RANK(ended, "{}", ended.error().message);
    const uint32_t before = (me + n - 1) % n;
    for (uint64_t i = 0; i < count; ++i) {
      EXPECT_RANK(in[i] == static_cast<float>(before * 10 + i % 7), "count {} at {}", count, i);
    }
  }
  return {};
}

// All to all by hand: 2 (n - 1) items.
std::string batch_of_everybody(Rank& rank) {
  const uint32_t n = rank.size(), me = rank.id();
  auto* data = reinterpret_cast<uint32_t*>(rank.arena.data());
  constexpr uint64_t kCount = 777;
  std::vector<PointToPoint> items;
  for (uint32_t r = 0; r < n; ++r) {
    for (uint64_t i = 0; i < kCount; ++i) data[r * kCount + i] = me * 100 + r;
    items.push_back({Kind::kSend, data + r * kCount, kCount, DType::kUint32, r});
    items.push_back({Kind::kRecv, data + (n + r) * kCount, kCount, DType::kUint32, r});
  }
  for (int round = 0; round < 20; ++round) {
    auto batch = rank.world.batch(items);
    EXPECT_RANK(batch && batch->wait());
  }
  for (uint32_t r = 0; r < n; ++r) EXPECT_RANK(data[(n + r) * kCount + 5] == r * 100 + me);
  return {};
}

// 31: oneself: defined in a batch or on two streams; on one stream a wait for oneself is reported.
std::string self_send(Rank& rank) {
  auto* data = reinterpret_cast<uint64_t*>(rank.arena.data());
  data[0] = 42;
  auto send =
      rank.world.send(data, 100, DType::kUint64, rank.id(), {.timeout = {}, .stream = Stream{1}});
  auto recv = rank.world.recv(data + 500, 100, DType::kUint64, rank.id(),
                              {.timeout = {}, .stream = Stream{2}});
  EXPECT_RANK(send && recv && send->wait() && recv->wait());
  EXPECT_RANK(data[500] == 42);
  auto alone = rank.world.send(data, 100, DType::kUint64, rank.id());
  auto behind = rank.world.recv(data + 500, 100, DType::kUint64, rank.id());
  EXPECT_RANK(alone && behind);
  const auto error = alone->wait();
  EXPECT_RANK(!error && error.error().message.find("cyclic wait") != std::string::npos, "{}",
              error ? std::string("it worked") : error.error().message);
  EXPECT_RANK(!behind->wait());
  return {};
}

// 28 31: both send first, on one stream.
std::string head_to_head(Rank& rank) {
  if (rank.id() > 1) return {};
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const uint32_t peer = 1 - rank.id();
  auto send = rank.world.send(data, 1000, DType::kFloat32, peer);
  auto recv = rank.world.recv(data + 1000, 1000, DType::kFloat32, peer);
  EXPECT_RANK(send && recv);
  const auto one = send->wait(), two = recv->wait();
  EXPECT_RANK(!one && !two && one.error().message.find("cyclic wait") != std::string::npos, "{}",
              one ? std::string("it worked") : one.error().message);
  return {};
}

// 31: sizes and types that differ are an error on both, and the next pair works.
std::string disagreement(Rank& rank) {
  if (rank.id() > 1) return {};
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const uint32_t peer = 1 - rank.id();
  const auto meet = [&](uint64_t sent, uint64_t expected, DType dtype) {
    return error_of(rank.id() == 0 ? rank.world.send(data, sent, DType::kFloat32, peer)
                                   : rank.world.recv(data, expected, dtype, peer));
  };
  for (uint64_t i = 0; i < 1000; ++i) data[i] = static_cast<float>(rank.id());
  EXPECT_RANK(says(meet(1000, 999, DType::kFloat32), Code::kFailedPrecondition, "count"));
  EXPECT_RANK(says(meet(1000, 4, DType::kFloat32), Code::kFailedPrecondition, "differ"));
  EXPECT_RANK(says(meet(1000, 1000, DType::kInt32), Code::kFailedPrecondition, "data type"));
  EXPECT_RANK(data[0] == static_cast<float>(rank.id()), "nothing was written");
  EXPECT_RANK(!meet(1000, 1000, DType::kFloat32));
  EXPECT_RANK(data[999] == 0.0f);
  EXPECT_RANK(says(error_of(rank.world.send(data, 10, DType::kFloat32, rank.size())),
                   Code::kInvalidArgument, "names rank"));
  return {};
}

// Inside a group, ranks are the group's.
std::string pairs_in_a_group(Rank& rank) {
  auto made =
      rank.world.split(static_cast<int32_t>(rank.id() % 2), -static_cast<int32_t>(rank.id()));
  EXPECT_RANK(made);
  auto& group = **made;
  if (group.size() >= 2 && group.rank() < 2) {
    auto* data = reinterpret_cast<uint32_t*>(rank.arena.data());
    for (int i = 0; i < 2000; ++i) data[i] = rank.id();
    auto work = group.rank() == 0 ? group.send(data, 2000, DType::kUint32, 1)
                                  : group.recv(data, 2000, DType::kUint32, 0);
    EXPECT_RANK(work && work->wait());
    EXPECT_RANK(data[1999] == group.membership().world_ranks[0]);
  }
  EXPECT_RANK(group.destroy());
  return {};
}

}  // namespace

std::vector<Case> pair_cases() {
  return {{"MessagesArriveInOrder", "31", {2, 3, 8}, fifo},
          {"BatchRingDoesNotDeadlock", "31", {1, 2, 3, 8}, batch_ring},
          {"BatchOfEverybodyExchangesAll", "31", {1, 3, 8}, batch_of_everybody},
          {"SelfSendIsDefined", "31", {1, 3}, self_send},
          {"HeadToHeadOnOneStreamIsACyclicWait", "28 31", {2, 4}, head_to_head},
          {"DisagreementIsAnErrorOnBoth", "31", {2, 4}, disagreement},
          {"PeersOfAGroupAreItsOwnRanks", "29 31", {4, 8}, pairs_in_a_group}};
}

}  // namespace npu::test
