// Communicators: split, overlapping members, destroy, order across communicators.
#include <cstring>

#include "tests/collectives/rank_body.hpp"

namespace npu::test {
namespace {

using client::Communicator;
using client::Stream;
using client::Work;

/// Sum of one number of each member.
std::string check_sum(Rank& rank, Communicator& group) {
  uint64_t x = 1 + rank.id(), want = 0;
  for (uint32_t m = 0; m < group.size(); ++m) want += 1u + group.membership().world_ranks[m];
  EXPECT_RANK(done(group.all_reduce(&x, &x, 1, DType::kUint64, ReduceOp::kSum)));
  EXPECT_RANK(x == want, "communicator {}: {} instead of {}", group.membership().id, x, want);
  return {};
}

std::string split_by_color_and_key(Rank& rank) {
  const auto me = static_cast<int32_t>(rank.id());
  // Descending keys: the order turns round.
  auto odd_even = rank.world.split(me % 2, -me);
  EXPECT_RANK(odd_even && *odd_even != nullptr);
  Communicator& group = **odd_even;
  EXPECT_RANK(group.size() == (rank.size() + 1 - rank.id() % 2) / 2);
  for (uint32_t m = 1; m < group.size(); ++m) {
    EXPECT_RANK(group.membership().world_ranks[m] < group.membership().world_ranks[m - 1]);
  }
  EXPECT_RANK(group.membership().world_ranks[group.rank()] == rank.id());
  if (auto bad = check_sum(rank, group); !bad.empty()) return bad;
  // A negative colour takes part and gets nothing.
  auto none = rank.world.split(rank.id() == 0 ? -1 : 7, 0);
  EXPECT_RANK(none && (*none == nullptr) == (rank.id() == 0));
  if (*none != nullptr) {
    if (auto bad = check_sum(rank, **none); !bad.empty()) return bad;
    EXPECT_RANK((*none)->destroy());
  }
  // A group of a group.
  auto nested = group.split(0, 0);
  EXPECT_RANK(nested && (*nested)->size() == group.size());
  if (auto bad = check_sum(rank, **nested); !bad.empty()) return bad;
  EXPECT_RANK((*nested)->destroy());
  EXPECT_RANK(group.destroy());
  return check_sum(rank, rank.world);
}

// 29: members in several communicators, large operations on all of them at the same time.
std::string overlapping_groups(Rank& rank) {
  const auto me = static_cast<int32_t>(rank.id());
  auto pairs = rank.world.split(me / 2, me);
  auto halves = rank.world.split(me % 2, me);
  EXPECT_RANK(pairs && halves);
  Communicator* groups[] = {&rank.world, pairs->get(), halves->get()};
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  constexpr uint64_t kCount = 60'000;
  for (int round = 0; round < 6; ++round) {
    std::vector<Work> works;
    for (int g = 0; g < 3; ++g) {
      float* at = data + static_cast<uint64_t>(g) * kCount;
      for (uint64_t i = 0; i < kCount; ++i) at[i] = 1;
      auto work = groups[g]->all_reduce(
          at, at, kCount, DType::kFloat32, ReduceOp::kSum,
          {.algorithm = (round + g) % 2 == 0 ? shm::Algorithm::kRing : shm::Algorithm::kDirect,
           .timeout = {},
           .stream = Stream{static_cast<uint8_t>(g)}});
      EXPECT_RANK(work, "{}", work.error().message);
      works.push_back(std::move(*work));
    }
    for (int g = 0; g < 3; ++g) {
      EXPECT_RANK(works[static_cast<size_t>(g)].wait());
      const auto want = static_cast<float>(groups[g]->size());
      for (uint64_t i = 0; i < kCount; ++i) {
        EXPECT_RANK(data[static_cast<uint64_t>(g) * kCount + i] == want, "group {} at {}", g, i);
      }
    }
  }
  EXPECT_RANK((*pairs)->destroy());
  EXPECT_RANK((*halves)->destroy());
  return {};
}

/// Two communicators with all ranks; even ranks use the first first, odd ones the second.
struct Crossed {
  std::unique_ptr<Communicator> a, b;
};

Result<Crossed> make_crossed(Rank& rank) {
  Crossed crossed;
  NPU_TRY(crossed.a, rank.world.split(0, 0));
  NPU_TRY(crossed.b, rank.world.split(0, 0));
  return crossed;
}

// 27: different streams: both complete.
std::string opposite_order_on_two_streams(Rank& rank) {
  auto crossed = make_crossed(rank);
  EXPECT_RANK(crossed);
  for (int i = 0; i < 30; ++i) {
    Communicator* order[] = {crossed->a.get(), crossed->b.get()};
    if (rank.id() % 2 == 1) std::swap(order[0], order[1]);
    auto first = order[0]->barrier({.timeout = {}, .stream = Stream{1}});
    auto second = order[1]->barrier({.timeout = {}, .stream = Stream{2}});
    EXPECT_RANK(first && second);
    EXPECT_RANK(first->wait() && second->wait());
  }
  EXPECT_RANK(crossed->a->destroy() && crossed->b->destroy());
  return {};
}

// 28: one stream: a cyclic wait, told to all; then everything works.
std::string opposite_order_on_one_stream(Rank& rank) {
  auto crossed = make_crossed(rank);
  EXPECT_RANK(crossed);
  for (int i = 0; i < 3; ++i) {
    Communicator* order[] = {crossed->a.get(), crossed->b.get()};
    if (rank.id() % 2 == 1) std::swap(order[0], order[1]);
    auto first = order[0]->barrier({.timeout = milliseconds(0)});
    auto second = order[1]->barrier({.timeout = milliseconds(0)});
    EXPECT_RANK(first && second);
    const auto one = first->wait(), two = second->wait();
    EXPECT_RANK(!one && !two);
    EXPECT_RANK(one.error().code == Code::kFailedPrecondition &&
                    one.error().message.find("cyclic wait") != std::string::npos,
                "{}", one.error().message);
    EXPECT_RANK(two.error().message.find("cyclic wait") != std::string::npos);
    EXPECT_RANK(done(rank.world.barrier()));
  }
  EXPECT_RANK(crossed->a->destroy() && crossed->b->destroy());
  return {};
}

// 41: destroy waits for what was submitted before; later calls and a second destroy are errors.
std::string destroy(Rank& rank) {
  auto made = rank.world.split(0, 0);
  EXPECT_RANK(made);
  Communicator& group = **made;
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  constexpr uint64_t kCount = 100'000;
  for (uint64_t i = 0; i < kCount; ++i) data[i] = 2;
  auto pending = group.all_reduce(data, data, kCount, DType::kFloat32, ReduceOp::kSum);
  EXPECT_RANK(pending);
  EXPECT_RANK(group.destroy());
  EXPECT_RANK(data[kCount - 1] == 2.0f * static_cast<float>(rank.size()), "done before destroy");
  EXPECT_RANK(pending->wait());
  EXPECT_RANK(says(error_of(group.barrier()), Code::kFailedPrecondition, "destroyed"));
  const auto again = group.destroy();
  EXPECT_RANK(!again && again.error().code == Code::kFailedPrecondition);
  const auto world = rank.world.destroy();
  EXPECT_RANK(!world && world.error().code == Code::kInvalidArgument);
  // Somebody who kept the number gets an error of his own, and hurts nobody.
  Communicator stale(rank.world.queue(), group.membership());
  EXPECT_RANK(says(error_of(stale.barrier()), Code::kNotFound, "not a member"));
  EXPECT_RANK(done(rank.world.barrier()));
  return {};
}

// Every slot used, all given back, many times.
std::string communicators_come_and_go(Rank& rank) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (;;) {
      auto made = rank.world.split(0, 0);
      if (!made) {
        EXPECT_RANK(made.error().code == Code::kResourceExhausted, "{}", made.error().message);
        break;
      }
      groups.push_back(std::move(*made));
    }
    EXPECT_RANK(groups.size() == shm::kMaxCommunicators - 1, "{}", groups.size());
    for (auto& group : groups) {
      if (auto bad = check_sum(rank, *group); !bad.empty()) return bad;
      EXPECT_RANK(group->destroy());
    }
  }
  return {};
}

}  // namespace

std::vector<Case> group_cases() {
  return {{"SplitOrdersByColorKeyAndRank", "29", {2, 3, 8}, split_by_color_and_key},
          {"OverlappingGroupsRunAtTheSameTime", "29", {2, 4, 8}, overlapping_groups},
          {"OppositeOrderOnTwoStreamsCompletes", "27", {2, 5, 8}, opposite_order_on_two_streams},
          {"OppositeOrderOnOneStreamIsACyclicWait", "28", {2, 5, 8}, opposite_order_on_one_stream},
          {"DestroyWaitsAndIsFinal", "41", {2, 8}, destroy},
          {"CommunicatorsComeAndGo", "41", {2, 3}, communicators_come_and_go}};
}

}  // namespace npu::test
