// Strict accumulation: one correct rounding of the exact fp16 sum, whatever the order of the ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "reference.hpp"

namespace npu::daemon::testing {
namespace {

constexpr size_t kCount = 5003;

std::vector<Bytes> random_inputs(DType dtype, uint32_t ranks, Fill fill) {
  std::vector<Bytes> inputs;
  for (uint32_t r = 0; r < ranks; ++r)
    inputs.push_back(make_input(dtype, kCount, fill, 77 * r + 5));
  return inputs;
}

std::vector<uint16_t> strict_fold(const char* level, DType dtype, ReduceOp op,
                                  const std::vector<Bytes>& inputs) {
  const ReduceKernel& sut = *reduce_kernel_at(level, dtype, op, Accumulate::kStrict);
  std::vector<const std::byte*> src;
  for (const Bytes& input : inputs) src.push_back(input.data());
  std::vector<uint16_t> out(kCount);
  auto* dst = reinterpret_cast<std::byte*>(out.data());
  ByProducts by;
  sut.fold({.src = src.data(),
            .ranks = static_cast<uint32_t>(src.size()),
            .dst = &dst,
            .dst_count = 1,
            .count = kCount},
           by);

  // The ring functions must give the same bits.
  std::vector<uint16_t> ring(kCount);
  Bytes acc(kCount * sut.acc_size);
  sut.begin(acc.data(), src[0], kCount, 1.0);
  for (size_t r = 1; r < src.size(); ++r) sut.step(acc.data(), src[r], kCount, 1.0);
  sut.finish(reinterpret_cast<std::byte*>(ring.data()), acc.data(), kCount,
             static_cast<uint32_t>(src.size()), by);
  EXPECT_EQ(ring, out);
  return out;
}

uint16_t word(const Bytes& bytes, size_t i) {
  uint16_t w = 0;
  std::memcpy(&w, bytes.data() + 2 * i, 2);
  return w;
}

class StrictKernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (reduce_kernel_at(GetParam(), DType::kFloat16, ReduceOp::kSum) == nullptr) {
      GTEST_SKIP() << "this processor lacks " << GetParam();
    }
  }
};

TEST_P(StrictKernels, RoundTheFp64FoldOnce) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
      for (const Fill fill : {Fill::kModerate, Fill::kAnyBits}) {
        for (uint32_t ranks = 1; ranks <= kMaxFoldRanks; ++ranks) {
          const auto inputs = random_inputs(dtype, ranks, fill);
          const auto out = strict_fold(GetParam(), dtype, op, inputs);
          for (size_t i = 0; i < kCount; ++i) {
            const bool half = dtype == DType::kFloat16;
            double sum = 0;
            for (uint32_t r = 0; r < ranks; ++r) {
              const uint16_t w = word(inputs[r], i);
              const double x = half ? half_to_float(w) : bfloat_to_float(w);
              sum = r == 0 ? x : sum + x;
            }
            if (op == ReduceOp::kMean) sum /= ranks;
            ASSERT_EQ(out[i], half ? double_to_half(sum) : double_to_bfloat(sum))
                << dtype_name(dtype) << " " << reduce_op_name(op) << " ranks " << ranks
                << " element " << i;
          }
        }
      }
    }
  }
}

TEST_P(StrictKernels, HalfResultDoesNotDependOnTheOrderOfRanks) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    auto inputs = random_inputs(DType::kFloat16, 5, Fill::kAnyBits);
    const auto first = strict_fold(GetParam(), DType::kFloat16, op, inputs);
    std::vector<size_t> order(inputs.size());
    std::iota(order.begin(), order.end(), 0);
    while (std::next_permutation(order.begin(), order.end())) {
      std::vector<Bytes> permuted;
      for (const size_t r : order) permuted.push_back(inputs[r]);
      ASSERT_EQ(strict_fold(GetParam(), DType::kFloat16, op, permuted), first);
    }
  }
}

TEST_P(StrictKernels, SmallAddendsAreNotLostBehindACancellingPair) {
  // In fp32 65504 + 2^-24 is 65504; in fp64 the small addend survives the cancellation.
  std::vector<Bytes> inputs(3, Bytes(2 * kCount));
  const uint16_t words[3] = {0x7bff, 0x0001, 0xfbff};
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < kCount; ++i) std::memcpy(inputs[r].data() + 2 * i, &words[r], 2);
  }
  const auto out = strict_fold(GetParam(), DType::kFloat16, ReduceOp::kSum, inputs);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](uint16_t w) { return w == 0x0001; }));
}

TEST_P(StrictKernels, OtherReductionsAreTheDefaultOnes) {
  EXPECT_EQ(reduce_kernel_at(GetParam(), DType::kFloat32, ReduceOp::kSum, Accumulate::kStrict),
            reduce_kernel_at(GetParam(), DType::kFloat32, ReduceOp::kSum));
  EXPECT_EQ(reduce_kernel_at(GetParam(), DType::kFloat16, ReduceOp::kMax, Accumulate::kStrict),
            reduce_kernel_at(GetParam(), DType::kFloat16, ReduceOp::kMax));
}

INSTANTIATE_TEST_SUITE_P(Levels, StrictKernels, ::testing::Values("plain", "avx2", "avx512"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace npu::daemon::testing
