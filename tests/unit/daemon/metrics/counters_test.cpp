#include "daemon/metrics/counters.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

namespace npu::daemon {
namespace {

TEST(HistogramBuckets, HoldWhatIsNotAboveTheirBound) {
  for (size_t i = 0; i < Histogram::kBounds; ++i) {
    EXPECT_EQ(Histogram::bucket_of(Histogram::bound_ns(i)), i) << i;
    EXPECT_EQ(Histogram::bucket_of(Histogram::bound_ns(i) + 1), i + 1) << i;
  }
  EXPECT_EQ(Histogram::bound_ns(0), 1000u);
  EXPECT_EQ(Histogram::bound_ns(Histogram::kBounds - 1), 1'048'576'000u) << "a second";
  EXPECT_EQ(Histogram::bucket_of(0), 0u);
  EXPECT_EQ(Histogram::bucket_of(UINT64_MAX), Histogram::kBounds);
}

TEST(HistogramBuckets, CountAndSum) {
  Histogram sut;
  sut.add(1);
  sut.add(2000);
  sut.add(2'000'000'000);
  const auto counts = sut.counts();
  EXPECT_EQ(counts[0], 1u);
  EXPECT_EQ(counts[1], 1u);
  EXPECT_EQ(counts[Histogram::kBounds], 1u);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), 3u);
  EXPECT_EQ(sut.sum_ns(), 2'000'002'001u);
}

TEST(OpResult, HasAWordForEveryCode) {
  const auto word = [](Code code) { return std::string(op_result_name(op_result_of(static_cast<uint8_t>(code)))); };
  EXPECT_STREQ(op_result_name(op_result_of(0)), "ok");
  EXPECT_EQ(word(Code::kDeadlineExceeded), "timeout");
  EXPECT_EQ(word(Code::kFailedPrecondition), "mismatch");
  EXPECT_EQ(word(Code::kAborted), "aborted");
  EXPECT_EQ(word(Code::kUnavailable), "aborted");
  EXPECT_EQ(word(Code::kInvalidArgument), "refused");
  EXPECT_EQ(word(static_cast<Code>(200)), "aborted");
}

TEST(SizeClass, EndsAtRoundSizes) {
  EXPECT_EQ(size_class_of(0), 0u);
  EXPECT_EQ(size_class_of(4096), 0u);
  EXPECT_EQ(size_class_of(4097), 1u);
  EXPECT_EQ(size_class_of(65536), 1u);
  EXPECT_EQ(size_class_of(1 << 20), 2u);
  EXPECT_EQ(size_class_of((1 << 20) + 1), 3u);
}

class EngineCountersTest : public testing::Test {
 protected:
  static constexpr auto kReduce = static_cast<size_t>(shm::Op::kAllReduce);
  static constexpr auto kFp32 = static_cast<size_t>(DType::kFloat32);
  static constexpr auto kDirect = static_cast<size_t>(shm::Algorithm::kDirect);

  FinishedOp all_reduce() const {
    return {.op = kReduce,
            .dtype = kFp32,
            .algorithm = kDirect,
            .payload_bytes = 8192,
            .first_ns = 1'000'000,
            .last_ns = 1'003'000,
            .start_ns = 1'010'000,
            .end_ns = 1'020'000};
  }
  uint64_t ops(size_t op, size_t dtype, size_t algorithm, OpResult result) const {
    return sut_->ops[op][dtype][algorithm][static_cast<size_t>(result)].value();
  }
  static uint64_t total(const Histogram& histogram) {
    const auto counts = histogram.counts();
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  }

  std::unique_ptr<EngineCounters> sut_ = std::make_unique<EngineCounters>();
};

TEST_F(EngineCountersTest, CountAnOperationThatWentWell) {
  sut_->count(all_reduce());
  EXPECT_EQ(ops(kReduce, kFp32, kDirect, OpResult::kOk), 1u);
  EXPECT_EQ(sut_->bytes[kReduce][kFp32].value(), 8192u);
  EXPECT_EQ(sut_->nonfinite[kReduce][kFp32].value(), 0u);
  EXPECT_EQ(sut_->duration[kReduce][1].sum_ns(), 17'000u) << "from the last arrival";
  EXPECT_EQ(sut_->arrival_skew[kReduce].sum_ns(), 3000u);
}

TEST_F(EngineCountersTest, AFailureHasNeitherBytesNorADuration) {
  FinishedOp op = all_reduce();
  op.code = static_cast<uint8_t>(Code::kFailedPrecondition);
  sut_->count(op);
  EXPECT_EQ(ops(kReduce, kFp32, kDirect, OpResult::kMismatch), 1u);
  EXPECT_EQ(sut_->bytes[kReduce][kFp32].value(), 0u);
  EXPECT_EQ(total(sut_->duration[kReduce][1]), 0u);
}

TEST_F(EngineCountersTest, WhatDoesNotExistIsCountedAsNone) {
  sut_->count({.op = 200, .dtype = 77, .algorithm = 9, .code = 1});
  EXPECT_EQ(ops(0, kDTypeCount, 0, OpResult::kRefused), 1u);
  sut_->count({.op = static_cast<uint8_t>(shm::Op::kBarrier), .dtype = 4, .algorithm = kDirect});
  EXPECT_EQ(ops(static_cast<size_t>(shm::Op::kBarrier), kDTypeCount, kDirect, OpResult::kOk), 1u)
      << "the type of a barrier is not looked at by anybody";
}

TEST_F(EngineCountersTest, TimeThatGoesBackIsNoTime) {
  FinishedOp op = all_reduce();
  op.first_ns = op.last_ns + 5;
  op.end_ns = op.last_ns - 5;
  sut_->count(op);
  EXPECT_EQ(sut_->arrival_skew[kReduce].sum_ns(), 0u);
  EXPECT_EQ(sut_->duration[kReduce][1].sum_ns(), 0u);
}

TEST_F(EngineCountersTest, BusyIsWhatRanByKind) {
  sut_->count_busy(3, all_reduce());
  FinishedOp op = all_reduce();
  op.op = static_cast<uint8_t>(shm::Op::kBroadcast);
  sut_->count_busy(3, op);
  op.start_ns = 0;  // done at once
  sut_->count_busy(3, op);
  sut_->count_busy(99, op);
  EXPECT_EQ(sut_->devices[3].reduce_ns.value(), 10'000u);
  EXPECT_EQ(sut_->devices[3].copy_ns.value(), 10'000u);
}

}  // namespace
}  // namespace npu::daemon
