// Numerics: one rounding, stated rules for NaN and infinities, the same bits everywhere.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/collectives/rank_body.hpp"
#include "tests/unit/daemon/kernels/reference.hpp"

namespace npu::test {
namespace {

using client::CollectiveResult;
using daemon::testing::double_to_half;
using daemon::testing::Fill;
using daemon::testing::half_to_float;
using daemon::testing::make_input;

constexpr uint64_t kCount = 10'001;
constexpr auto kAlgorithms = {shm::Algorithm::kDirect, shm::Algorithm::kRing};

std::optional<CollectiveResult> reduce_in_place(Rank& rank, void* data, DType dtype, ReduceOp op,
                                                shm::Algorithm algorithm, bool strict = false) {
  auto work = rank.world.all_reduce(data, data, kCount, dtype, op,
                                    {.algorithm = algorithm, .timeout = {}, .strict = strict});
  if (!work) return std::nullopt;
  auto result = work->wait();
  if (!result) return std::nullopt;
  return *result;
}

// 15: 2048 + 1 + 1 + ... in fp16 stays at 2048 if each hop rounds; one rounding gives the sum.
std::string fp16_rounds_once(Rank& rank) {
  auto* data = reinterpret_cast<uint16_t*>(rank.arena.data());
  for (const auto algorithm : kAlgorithms) {
    for (uint64_t i = 0; i < kCount; ++i) data[i] = double_to_half(rank.id() == 0 ? 2048 : 1);
    EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat16, ReduceOp::kSum, algorithm));
    const uint16_t want = double_to_half(2048 + rank.size() - 1);
    for (uint64_t i = 0; i < kCount; ++i) EXPECT_RANK(data[i] == want, "at {}", i);
  }
  return {};
}

// 16: the sum leaves fp16's range, the mean does not.
std::string fp16_mean_does_not_overflow(Rank& rank) {
  auto* data = reinterpret_cast<uint16_t*>(rank.arena.data());
  for (const auto algorithm : kAlgorithms) {
    for (uint64_t i = 0; i < kCount; ++i) data[i] = double_to_half(40'000);
    const auto result = reduce_in_place(rank, data, DType::kFloat16, ReduceOp::kMean, algorithm);
    EXPECT_RANK(result && !result->found_inf && !result->result_inf);
    EXPECT_RANK(half_to_float(data[0]) == 40'000 && half_to_float(data[kCount - 1]) == 40'000);
  }
  return {};
}

// 17: NaN of any rank, infinities of both signs; max and min have one rule on all ranks.
std::string nan_and_infinity(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto algorithm : kAlgorithms) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kMean}) {
      for (uint64_t i = 0; i < kCount; ++i) data[i] = 1.0f;
      if (rank.id() == 1) data[17] = NAN;
      if (rank.id() == 0) data[18] = inf;
      if (rank.id() == 1) data[18] = -inf;
      EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat32, op, algorithm));
      EXPECT_RANK(std::isnan(data[17]), "{}", reduce_op_name(op));
      const bool extreme = op == ReduceOp::kMax || op == ReduceOp::kMin;
      EXPECT_RANK(extreme ? data[18] == (op == ReduceOp::kMax ? inf : -inf) : std::isnan(data[18]));
      EXPECT_RANK(!std::isnan(data[16]) && !std::isnan(data[19]));
    }
  }
  return {};
}

// 18: no flush to zero; -0 < +0 for max and min.
std::string subnormals_and_signed_zero(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const auto algorithm : kAlgorithms) {
    for (uint64_t i = 0; i < kCount; ++i) data[i] = tiny;
    EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat32, ReduceOp::kSum, algorithm));
    EXPECT_RANK(data[5] == tiny * static_cast<float>(rank.size()) && data[5] > 0);
    for (uint64_t i = 0; i < kCount; ++i) data[i] = rank.id() == 0 ? 0.0f : -0.0f;
    EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat32, ReduceOp::kMin, algorithm));
    EXPECT_RANK(std::signbit(data[7]) && data[7] == 0);
    for (uint64_t i = 0; i < kCount; ++i) data[i] = rank.id() == 0 ? 0.0f : -0.0f;
    EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat32, ReduceOp::kMax, algorithm));
    EXPECT_RANK(!std::signbit(data[7]));
  }
  return {};
}

// 19: integers wrap.
std::string integers_wrap(Rank& rank) {
  auto* data = reinterpret_cast<int8_t*>(rank.arena.data());
  for (const auto algorithm : kAlgorithms) {
    for (uint64_t i = 0; i < kCount; ++i) data[i] = 100;
    EXPECT_RANK(reduce_in_place(rank, data, DType::kInt8, ReduceOp::kSum, algorithm));
    EXPECT_RANK(data[3] == static_cast<int8_t>(100 * rank.size()));
    for (uint64_t i = 0; i < kCount; ++i) data[i] = -3;
    EXPECT_RANK(reduce_in_place(rank, data, DType::kInt8, ReduceOp::kProd, algorithm));
    int product = 1;
    for (uint32_t r = 0; r < rank.size(); ++r) product = static_cast<int8_t>(product * -3);
    EXPECT_RANK(data[3] == static_cast<int8_t>(product));
  }
  return {};
}

// 20: found_inf on every rank if and only if an input is not finite.
std::string found_inf(Rank& rank) {
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const float big = std::numeric_limits<float>::max();
  for (const auto algorithm : kAlgorithms) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (uint32_t culprit = 0; culprit <= rank.size(); ++culprit) {
        for (uint64_t i = 0; i < kCount; ++i) data[i] = big;  // overflows, yet finite
        // Minus infinity does not show in a max: it must be seen in the input.
        if (rank.id() == culprit) data[kCount - 1] = -std::numeric_limits<float>::infinity();
        const auto result = reduce_in_place(rank, data, DType::kFloat32, op, algorithm);
        EXPECT_RANK(result && result->found_inf == (culprit < rank.size()), "culprit {} {}",
                    culprit, reduce_op_name(op));
        EXPECT_RANK(result->result_inf == (op == ReduceOp::kSum && rank.size() > 1 ? true
                                           : op == ReduceOp::kMax ? rank.size() == 1 && culprit == 0
                                                                  : culprit == 0));
      }
    }
  }
  return {};
}

/// XXH-like mix, good enough to compare ranks' bits.
uint64_t mix(const std::byte* p, uint64_t bytes) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (uint64_t i = 0; i < bytes; ++i) h = (h ^ static_cast<uint64_t>(p[i])) * 0x100000001b3ULL;
  return h;
}

// 21 22: the same bits on all ranks, from ring and direct, for any division into buckets.
std::string same_bits(Rank& rank) {
  for (const auto dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    const uint64_t element = dtype_size(dtype), bytes = kCount * element;
    const auto input = make_input(dtype, kCount, Fill::kAnyBits, 77 + rank.id());
    uint64_t first = 0;
    for (int layout = 0; layout < 4; ++layout) {
      std::byte* data = rank.arena.data() + 128 + static_cast<uint64_t>(layout) * element;
      std::memcpy(data, input.data(), bytes);
      const uint64_t bucket = layout < 2 ? kCount : layout == 2 ? 977 : 5000;
      for (uint64_t at = 0; at < kCount; at += bucket) {
        const uint64_t n = std::min(bucket, kCount - at);
        std::byte* p = data + at * element;
        EXPECT_RANK(done(rank.world.all_reduce(
            p, p, n, dtype, ReduceOp::kMean,
            {.algorithm = layout % 2 == 0 ? shm::Algorithm::kDirect : shm::Algorithm::kRing,
             .timeout = {}})));
      }
      const uint64_t digest = mix(data, bytes);
      if (layout == 0) first = digest;
      EXPECT_RANK(digest == first, "{} layout {}", dtype_name(dtype), layout);
    }
    uint64_t least = first, most = first;
    EXPECT_RANK(done(rank.world.all_reduce(&least, &least, 1, DType::kUint64, ReduceOp::kMin)));
    EXPECT_RANK(done(rank.world.all_reduce(&most, &most, 1, DType::kUint64, ReduceOp::kMax)));
    EXPECT_RANK(least == most, "ranks differ, {}", dtype_name(dtype));
  }
  return {};
}

// 23: strict sums do not depend on which rank holds what; default ones do here.
std::string strict_is_order_independent(Rank& rank) {
  auto* data = reinterpret_cast<uint16_t*>(rank.arena.data());
  for (const auto algorithm : kAlgorithms) {
    uint64_t first = 0;
    for (uint32_t turn = 0; turn < rank.size(); ++turn) {
      const auto input = make_input(DType::kFloat16, kCount, Fill::kModerate,
                                    5 + (rank.id() + turn) % rank.size());
      std::memcpy(data, input.data(), kCount * 2);
      EXPECT_RANK(reduce_in_place(rank, data, DType::kFloat16, ReduceOp::kSum, algorithm, true));
      const uint64_t digest = mix(reinterpret_cast<std::byte*>(data), kCount * 2);
      if (turn == 0) first = digest;
      EXPECT_RANK(digest == first, "turn {}", turn);
    }
  }
  return {};
}

}  // namespace

std::vector<Case> numerics_cases() {
  return {{"Fp16RoundsOnce", "15", {2, 3, 8}, fp16_rounds_once},
          {"Fp16MeanDoesNotOverflow", "16", {2, 8}, fp16_mean_does_not_overflow},
          {"NanAndInfinityFollowOneRule", "17", {2, 5, 8}, nan_and_infinity},
          {"SubnormalsAndSignedZeroSurvive", "18", {2, 8}, subnormals_and_signed_zero},
          {"IntegersWrap", "19", {2, 7, 8}, integers_wrap},
          {"FoundInfIsSetIfAndOnlyIfAnInputIsNotFinite", "20", {1, 2, 3, 8}, found_inf},
          {"BitsAreTheSameOnAllRanksAlgorithmsAndBuckets", "21 22", {2, 3, 8}, same_bits},
          {"StrictSumsDoNotDependOnTheOrderOfRanks", "23", {2, 3, 8}, strict_is_order_independent}};
}

}  // namespace npu::test
