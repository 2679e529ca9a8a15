// The published numerical rules, one test each, on every level this processor has.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "reference.hpp"

namespace npu::daemon::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
struct Folded {
  std::vector<T> value;
  ByProducts by;
};

/// Reduces `columns[r]` of rank r; every element of the slice holds the same problem's elements.
template <typename T>
Folded<T> fold_at(const char* level, DType dtype, ReduceOp op,
                  const std::vector<std::vector<T>>& ranks, double scale = 1.0,
                  Accumulate mode = Accumulate::kDefault) {
  std::vector<const std::byte*> src;
  for (const auto& rank : ranks) src.push_back(reinterpret_cast<const std::byte*>(rank.data()));
  Folded<T> out{std::vector<T>(ranks[0].size()), {}};
  auto* dst = reinterpret_cast<std::byte*>(out.value.data());
  reduce_kernel_at(level, dtype, op, mode)
      ->fold({.src = src.data(),
              .ranks = static_cast<uint32_t>(ranks.size()),
              .dst = &dst,
              .dst_count = 1,
              .count = ranks[0].size(),
              .scale = scale},
             out.by);
  return out;
}

std::vector<std::vector<uint16_t>> halves(const std::vector<double>& per_rank, size_t count = 37) {
  std::vector<std::vector<uint16_t>> ranks;
  for (const double v : per_rank) ranks.emplace_back(count, double_to_half(v));
  return ranks;
}

std::vector<std::vector<float>> floats(const std::vector<float>& per_rank, size_t count = 37) {
  std::vector<std::vector<float>> ranks;
  for (const float v : per_rank) ranks.emplace_back(count, v);
  return ranks;
}

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

class KernelRules : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (reduce_kernel_at(GetParam(), DType::kFloat32, ReduceOp::kSum) == nullptr) {
      GTEST_SKIP() << "this processor lacks " << GetParam();
    }
  }
};

TEST_P(KernelRules, HalfSumRoundsOnce) {
  // 2048 + 1 is a tie that rounds back to 2048 at every hop, while the sum 2051 rounds to 2052.
  const auto out = fold_at(GetParam(), DType::kFloat16, ReduceOp::kSum, halves({2048, 1, 1, 1}));
  for (const uint16_t v : out.value) EXPECT_EQ(half_to_float(v), 2052.0F);
}

TEST_P(KernelRules, HalfMeanBeyondTheRangeOfTheSumStaysFinite) {
  const auto out =
      fold_at(GetParam(), DType::kFloat16, ReduceOp::kMean, halves(std::vector<double>(8, 40000)));
  for (const uint16_t v : out.value) EXPECT_EQ(half_to_float(v), 40000.0F);
  EXPECT_FALSE(out.by.input_nonfinite);
  EXPECT_FALSE(out.by.result_nonfinite);
}

TEST_P(KernelRules, OverflowOfFiniteInputsIsAResultNotAnInput) {
  const auto out = fold_at(GetParam(), DType::kFloat16, ReduceOp::kSum, halves({40000, 40000}));
  for (const uint16_t v : out.value) EXPECT_EQ(v, 0x7c00);
  EXPECT_FALSE(out.by.input_nonfinite);
  EXPECT_TRUE(out.by.result_nonfinite);
}

TEST_P(KernelRules, HalfTieBelowInfinityFollowsNearestEven) {
  // 65519 rounds to 65504, 65520 is the tie and goes to infinity.
  const auto below = fold_at(GetParam(), DType::kFloat16, ReduceOp::kSum, halves({65504, 15, 0.5}));
  const auto tie = fold_at(GetParam(), DType::kFloat16, ReduceOp::kSum, halves({65504, 16}));
  EXPECT_EQ(below.value[0], 0x7bff);
  EXPECT_FALSE(below.by.result_nonfinite);
  EXPECT_EQ(tie.value[0], 0x7c00);
  EXPECT_TRUE(tie.by.result_nonfinite);
}

TEST_P(KernelRules, BFloatTieBelowInfinityFollowsNearestEven) {
  // The largest finite value plus half its last place is finite in fp32 and rounds to infinity.
  const std::vector<std::vector<uint16_t>> tie = {std::vector<uint16_t>(37, 0x7f7f),
                                                  std::vector<uint16_t>(37, 0x7b00)};
  const auto out = fold_at(GetParam(), DType::kBFloat16, ReduceOp::kSum, tie);
  EXPECT_EQ(out.value[0], 0x7f80);
  EXPECT_FALSE(out.by.input_nonfinite);
  EXPECT_TRUE(out.by.result_nonfinite);
}

TEST_P(KernelRules, OneInfinityAnywhereIsFoundAndNothingElse) {
  for (const size_t count : {1, 16, 64, 257, 5000}) {
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      auto ranks = floats({1, 2, 3}, count);
      EXPECT_FALSE(fold_at(GetParam(), DType::kFloat32, ReduceOp::kSum, ranks).by.input_nonfinite);
      ranks[1][at] = -kInf;
      for (const auto op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kPreMulSum, ReduceOp::kProd,
                            ReduceOp::kMax, ReduceOp::kMin}) {
        const auto out = fold_at(GetParam(), DType::kFloat32, op, ranks, 0.0);
        EXPECT_TRUE(out.by.input_nonfinite) << reduce_op_name(op);
        // Only max hides a negative infinity.
        EXPECT_EQ(out.by.result_nonfinite, op != ReduceOp::kMax) << reduce_op_name(op);
      }
    }
  }
}

TEST_P(KernelRules, NanOfAnyKindAndRankGivesTheCanonicalNan) {
  const float payload = std::bit_cast<float>(0xffc12345U);
  const float signalling = std::bit_cast<float>(0x7f800001U);
  for (const float nan : {kNan, payload, signalling}) {
    for (size_t rank = 0; rank < 3; ++rank) {
      std::vector<float> column = {1, -kInf, kInf};
      column[rank] = nan;
      for (uint8_t op = 0; op < kReduceOpCount; ++op) {
        const auto out =
            fold_at(GetParam(), DType::kFloat32, static_cast<ReduceOp>(op), floats(column));
        for (const float v : out.value) EXPECT_EQ(bits(v), 0x7fc00000U);
      }
    }
  }
  const auto opposite = fold_at(GetParam(), DType::kFloat32, ReduceOp::kSum, floats({kInf, -kInf}));
  EXPECT_EQ(bits(opposite.value[0]), 0x7fc00000U);
}

TEST_P(KernelRules, NegativeZeroIsLessThanZeroAndSurvivesASum) {
  const auto level = GetParam();
  EXPECT_EQ(bits(fold_at(level, DType::kFloat32, ReduceOp::kMax, floats({-0.0F, 0.0F})).value[0]),
            0U);
  EXPECT_EQ(bits(fold_at(level, DType::kFloat32, ReduceOp::kMax, floats({0.0F, -0.0F})).value[0]),
            0U);
  EXPECT_EQ(bits(fold_at(level, DType::kFloat32, ReduceOp::kMin, floats({-0.0F, 0.0F})).value[0]),
            bits(-0.0F));
  EXPECT_EQ(bits(fold_at(level, DType::kFloat32, ReduceOp::kMin, floats({0.0F, -0.0F})).value[0]),
            bits(-0.0F));
  EXPECT_EQ(bits(fold_at(level, DType::kFloat32, ReduceOp::kSum, floats({-0.0F, -0.0F})).value[0]),
            bits(-0.0F));
  EXPECT_EQ(fold_at(level, DType::kFloat16, ReduceOp::kMin, halves({0.0, -0.0})).value[0], 0x8000);
}

TEST_P(KernelRules, SubnormalsAreKept) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(fold_at(GetParam(), DType::kFloat32, ReduceOp::kSum, floats({tiny, tiny})).value[0],
            2 * tiny);
  const std::vector<std::vector<uint16_t>> ranks(3, std::vector<uint16_t>(37, 0x0001));
  EXPECT_EQ(fold_at(GetParam(), DType::kFloat16, ReduceOp::kSum, ranks).value[0], 0x0003);
  EXPECT_EQ(fold_at(GetParam(), DType::kBFloat16, ReduceOp::kSum, ranks).value[0], 0x0003);
}

TEST_P(KernelRules, EveryHalfAndBFloatSurvivesASumWithNegativeZero) {
  std::vector<std::vector<uint16_t>> ranks(2, std::vector<uint16_t>(65536, 0x8000));
  for (uint32_t i = 0; i < 65536; ++i) ranks[0][i] = static_cast<uint16_t>(i);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto out = fold_at(GetParam(), dtype, ReduceOp::kSum, ranks);
    const uint32_t infinity = dtype == DType::kFloat16 ? 0x7c00 : 0x7f80;
    for (uint32_t i = 0; i < 65536; ++i) {
      const bool nan = (i & 0x7fff) > infinity;
      const uint32_t canonical = dtype == DType::kFloat16 ? 0x7e00 : 0x7fc0;
      ASSERT_EQ(out.value[i], nan ? canonical : i);
    }
  }
}

TEST_P(KernelRules, PreMulSumRoundsTheProductAndTheSum) {
  // A fused multiply-add would keep the low bits of the product and give another value.
  const float a = 1.0F + 0x1p-12F;
  const auto out =
      fold_at(GetParam(), DType::kFloat32, ReduceOp::kPreMulSum, floats({-1.0F, a}), double{a});
  const volatile float product = a * a;
  EXPECT_EQ(out.value[0], -a + product);
}

TEST_P(KernelRules, IntegersWrapAndTheirMeanTruncatesTowardsZero) {
  const auto level = GetParam();
  const std::vector<std::vector<int8_t>> big(2, std::vector<int8_t>(70, 100));
  EXPECT_EQ(fold_at(level, DType::kInt8, ReduceOp::kSum, big).value[69], -56);
  EXPECT_EQ(fold_at(level, DType::kInt8, ReduceOp::kProd, big).value[69], 16);
  EXPECT_EQ(fold_at(level, DType::kInt8, ReduceOp::kMean, big).value[69], -28);
  const std::vector<std::vector<int32_t>> odd = {{-3, 3, -1}, {-4, 4, 0}};
  EXPECT_EQ(fold_at(level, DType::kInt32, ReduceOp::kMean, odd).value,
            (std::vector<int32_t>{-3, 3, 0}));
}

TEST_P(KernelRules, IntegerScaleTruncatesAndSaturates) {
  const auto level = GetParam();
  const std::vector<std::vector<int64_t>> one = {{1}};
  const auto scaled = [&](double scale) {
    return fold_at(level, DType::kInt64, ReduceOp::kPreMulSum, one, scale).value[0];
  };
  EXPECT_EQ(scaled(-2.9), -2);
  EXPECT_EQ(scaled(1e300), -1);  // UINT64_MAX, wrapped
  EXPECT_EQ(scaled(-1e300), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(scaled(std::nan("")), 0);
}

TEST_P(KernelRules, FlagsAreOnlyEverRaised) {
  ByProducts by{.input_nonfinite = true, .result_nonfinite = true};
  const auto ranks = floats({1, 2});
  const std::byte* src[] = {reinterpret_cast<const std::byte*>(ranks[0].data()),
                            reinterpret_cast<const std::byte*>(ranks[1].data())};
  std::vector<float> out(37);
  auto* dst = reinterpret_cast<std::byte*>(out.data());
  reduce_kernel_at(GetParam(), DType::kFloat32, ReduceOp::kSum)
      ->fold({.src = src, .ranks = 2, .dst = &dst, .dst_count = 1, .count = 37}, by);
  EXPECT_TRUE(by.input_nonfinite);
  EXPECT_TRUE(by.result_nonfinite);
}

INSTANTIATE_TEST_SUITE_P(Levels, KernelRules, ::testing::Values("plain", "avx2", "avx512"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace npu::daemon::testing
