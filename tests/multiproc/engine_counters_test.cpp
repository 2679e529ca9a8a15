// What the engine counts of operations that are known exactly; ranks are threads over one mapping.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "tests/collectives/twin.hpp"

namespace npu::test {
namespace {

using daemon::EngineCounters;
using daemon::OpResult;
using daemon::RunCounters;

constexpr auto kFp32 = static_cast<size_t>(DType::kFloat32);

class EngineCountersTest : public testing::Test {
 protected:
  uint64_t ops(shm::Op op, OpResult result, size_t dtype = kFp32) const {
    uint64_t sum = 0;
    for (const auto& algorithm : totals_->ops[static_cast<size_t>(op)][dtype]) {
      sum += algorithm[static_cast<size_t>(result)].value();
    }
    return sum;
  }
  uint64_t timed(shm::Op op, size_t size) const {
    const auto counts = totals_->duration[static_cast<size_t>(op)][size].counts();
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  }

  std::unique_ptr<EngineCounters> totals_ = std::make_unique<EngineCounters>();
};

TEST_F(EngineCountersTest, EveryOperationIsCountedOnceWithItsPayload) {
  Twin sut(4, 2, totals_.get());
  const auto wrong = sut.ranks([](Rank& rank) -> std::string {
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    for (int i = 0; i < 10; ++i) {
      EXPECT_RANK(done(rank.world.all_reduce(data, data, 100'000, DType::kFloat32, ReduceOp::kSum)));
      EXPECT_RANK(done(rank.world.barrier()));
    }
    for (int i = 0; i < 3; ++i) EXPECT_RANK(done(rank.world.broadcast(data, 2, DType::kFloat32, 1)));
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(ops(shm::Op::kAllReduce, OpResult::kOk), 10u);
  EXPECT_EQ(ops(shm::Op::kBarrier, OpResult::kOk, kDTypeCount), 10u);
  EXPECT_EQ(ops(shm::Op::kBroadcast, OpResult::kOk), 3u);
  EXPECT_EQ(totals_->bytes[static_cast<size_t>(shm::Op::kAllReduce)][kFp32].value(), 10u * 400'000);
  EXPECT_EQ(totals_->bytes[static_cast<size_t>(shm::Op::kBroadcast)][kFp32].value(), 3u * 8);
  EXPECT_EQ(timed(shm::Op::kAllReduce, 2), 10u);
  EXPECT_EQ(timed(shm::Op::kBroadcast, 0), 3u);
  for (uint32_t d = 0; d < 4; ++d) EXPECT_GT(totals_->devices[d].reduce_ns.value(), 0u);
  EXPECT_EQ(totals_->devices[4].reduce_ns.value(), 0u);
  const RunCounters& run = sut.counters();
  EXPECT_EQ(run.started.value(), 23u);
  EXPECT_EQ(run.ended.value(), 23u);
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(run.ranks[r].taken.value(), 23u);
    EXPECT_EQ(run.ranks[r].open.value(), 0u);
    EXPECT_GT(run.ranks[r].last_ns.value(), 0u);
  }
}

TEST_F(EngineCountersTest, TheLastToArriveIsTheOneThatOthersWaitedFor) {
  Twin sut(3, 1, totals_.get());
  const auto wrong = sut.ranks([&](Rank& rank) -> std::string {
    for (int i = 0; i < 5; ++i) {
      // Rank 0 comes when the engine has taken what the others submitted, and is the first that a round looks at: so
      // it is taken in a later one.
      const auto taken = [&](size_t r) { return sut.counters().ranks[r].taken.value(); };
      while (rank.id() == 0 && taken(1) + taken(2) < 2 * static_cast<uint64_t>(i + 1)) ::poll(nullptr, 0, 1);
      EXPECT_RANK(done(rank.world.barrier()));
    }
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(sut.counters().ranks[0].last_arrivals.value(), 5u);
  EXPECT_EQ(sut.counters().ranks[1].last_arrivals.value(), 0u);
  EXPECT_EQ(sut.counters().ranks[2].last_arrivals.value(), 0u);
}

TEST_F(EngineCountersTest, AMismatchIsAFailureOfEveryRank) {
  Twin sut(2, 1, totals_.get());
  const auto wrong = sut.ranks([](Rank& rank) -> std::string {
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    EXPECT_RANK(says(error_of(rank.world.all_reduce(data, data, 100 + rank.id(), DType::kFloat32, ReduceOp::kSum)),
                     Code::kFailedPrecondition, "count"));
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(ops(shm::Op::kAllReduce, OpResult::kMismatch), 1u);
  EXPECT_EQ(ops(shm::Op::kAllReduce, OpResult::kOk), 0u);
  for (uint32_t d = 0; d < 2; ++d) {
    EXPECT_EQ(totals_->devices[d].errors[static_cast<size_t>(Code::kFailedPrecondition)].value(), 1u);
  }
}

TEST_F(EngineCountersTest, WhatIsNotFiniteIsCounted) {
  Twin sut(2, 1, totals_.get());
  const auto wrong = sut.ranks([](Rank& rank) -> std::string {
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    data[7] = rank.id() == 1 ? HUGE_VALF : 0;
    EXPECT_RANK(done(rank.world.all_reduce(data, data, 1000, DType::kFloat32, ReduceOp::kSum)));
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(totals_->nonfinite[static_cast<size_t>(shm::Op::kAllReduce)][kFp32].value(), 1u);
}

TEST_F(EngineCountersTest, APairIsOneOperation) {
  Twin sut(2, 1, totals_.get());
  const auto wrong = sut.ranks([](Rank& rank) -> std::string {
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    EXPECT_RANK(done(rank.id() == 0 ? rank.world.send(data, 1000, DType::kFloat32, 1)
                                    : rank.world.recv(data, 1000, DType::kFloat32, 0)));
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(ops(shm::Op::kSend, OpResult::kOk), 1u);
  EXPECT_EQ(totals_->bytes[static_cast<size_t>(shm::Op::kSend)][kFp32].value(), 4000u);
  EXPECT_EQ(sut.counters().started.value(), sut.counters().ended.value());
  EXPECT_GT(totals_->devices[0].copy_ns.value(), 0u);
}

TEST_F(EngineCountersTest, AnAbortEndsWhatWasGatheringAsSuch) {
  Twin sut(2, 1, totals_.get());
  const auto wrong = sut.ranks([&](Rank& rank) -> std::string {
    if (rank.id() == 1) {
      while (sut.counters().ranks[0].taken.value() == 0) ::poll(nullptr, 0, 1);
      sut.engine().abort_run(sut.id(), Code::kAborted, 1, "rank 1 (pid 1001) died");
      return {};
    }
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    EXPECT_RANK(says(error_of(rank.world.all_reduce(data, data, 100, DType::kFloat32, ReduceOp::kSum)), Code::kAborted,
                     "rank 1"));
    return {};
  });
  for (const auto& w : wrong) EXPECT_EQ(w, "");
  EXPECT_EQ(ops(shm::Op::kAllReduce, OpResult::kAborted), 1u);
}

}  // namespace
}  // namespace npu::test
