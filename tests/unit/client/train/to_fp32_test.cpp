#include "client/train/to_fp32.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <limits>

namespace npu::client {
namespace {

template <typename T>
std::vector<float> converted(FileDType dtype, const std::vector<T>& values) {
  // One byte off any alignment.
  std::vector<std::byte> raw(1 + values.size() * sizeof(T));
  std::memcpy(raw.data() + 1, values.data(), values.size() * sizeof(T));
  std::vector<float> out(values.size());
  to_fp32(dtype, std::span(raw).subspan(1), out);
  return out;
}

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

/// What the bits of an IEEE type with this many exponent and mantissa bits stand for.
double value_of(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

void expect_exact(FileDType dtype, int exponent_bits, int mantissa_bits) {
  const std::vector<uint16_t> patterns = all_patterns();
  const std::vector<float> sut = converted(dtype, patterns);
  for (size_t i = 0; i < patterns.size(); ++i) {
    const double want = value_of(patterns[i], exponent_bits, mantissa_bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(sut[i])) << patterns[i];
    } else {
      ASSERT_EQ(static_cast<double>(sut[i]), want) << patterns[i];
      ASSERT_EQ(std::signbit(sut[i]), std::signbit(want)) << patterns[i];
    }
  }
}

TEST(ToFp32, EachFp16ValueIsExact) { expect_exact(FileDType::kF16, 5, 10); }

TEST(ToFp32, EachBf16ValueIsExact) { expect_exact(FileDType::kBF16, 8, 7); }

TEST(ToFp32, Fp32KeepsItsBits) {
  const std::vector<uint32_t> bits = {0, 0x80000000, 1, 0x3f800000, 0x7f7fffff, 0x7f800000};
  const std::vector<float> sut = converted(FileDType::kF32, bits);
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(std::bit_cast<uint32_t>(sut[i]), bits[i]);
}

TEST(ToFp32, Fp64IsRoundedToNearest) {
  EXPECT_EQ(converted<double>(FileDType::kF64, {0.1, -1.5, 1e39, -1e39, 1e-60}),
            (std::vector<float>{0.1F, -1.5F, HUGE_VALF, -HUGE_VALF, 0}));
}

TEST(ToFp32, IntegersDoNotConvert) {
  for (const auto dtype : {FileDType::kI64, FileDType::kI8, FileDType::kU16, FileDType::kBool}) {
    EXPECT_FALSE(converts_to_fp32(dtype));
  }
}

}  // namespace
}  // namespace npu::client
