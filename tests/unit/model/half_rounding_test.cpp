// fp16 as activations and the wire of gradients have it: IEEE's values, and every compiled version
// against plain, bit for bit.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "model/kernels/kernels.hpp"

namespace npu::model {
namespace {

const Kernels& plain() { return select_kernels("plain", Format::kFp16); }

uint16_t rounded(float value) {
  uint16_t half = 0;
  plain().narrow(&value, &half, 1);
  return half;
}

float widened(uint16_t half) {
  float value = 0;
  plain().widen(&half, &value, 1);
  return value;
}

/// The nearest half by IEEE's definition, searched in doubles; `magnitude` is finite and positive.
uint16_t nearest(double magnitude) {
  if (magnitude >= 65520) return 0x7c00;
  uint16_t low = 0, high = 0x7bff;  // values of finite halves ascend with their bits
  while (low < high) {
    const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (static_cast<double>(widened(middle)) <= magnitude) {
      low = middle;
    } else {
      high = static_cast<uint16_t>(middle - 1);
    }
  }
  if (low == 0x7bff) return low;
  const double below = magnitude - static_cast<double>(widened(low));
  const double above = static_cast<double>(widened(static_cast<uint16_t>(low + 1))) - magnitude;
  if (below != above) return below < above ? low : static_cast<uint16_t>(low + 1);
  return static_cast<uint16_t>(low + low % 2);
}

TEST(HalfRounding, GoldenRoundings) {
  EXPECT_EQ(widened(rounded(65519)), 65504);
  EXPECT_EQ(widened(rounded(65520)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(widened(rounded(-65520)), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(widened(rounded(2049)), 2048);
  EXPECT_EQ(widened(rounded(2051)), 2052);
  EXPECT_EQ(widened(rounded(0x1p-25F)), 0);
  EXPECT_EQ(widened(rounded(0x1.000002p-25F)), 0x1p-24F);
  EXPECT_EQ(widened(rounded(0x1.8p-24F)), 0x1p-23F);
  EXPECT_EQ(widened(rounded(0x1.ff8p-15F)), 0x1.ff8p-15F);  // a subnormal that is exact
  EXPECT_EQ(rounded(-0.0F), 0x8000);
  EXPECT_EQ(rounded(1e-30F), 0);
  EXPECT_EQ(rounded(-1e-45F), 0x8000);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(rounded(std::bit_cast<float>(0x7fc02000U)), 0x7e01);
  EXPECT_EQ(rounded(std::bit_cast<float>(0xff800001U)), 0xfe00);
}

TEST(HalfRounding, AllHalvesSurviveTheRoundTrip) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const auto bits = static_cast<uint16_t>(half);
    const float value = widened(bits);
    const bool nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(std::isnan(value), nan) << half;
    ASSERT_EQ(rounded(value), nan ? bits | 0x200 : bits) << half;
    if (nan || (bits & 0x7c00) == 0x7c00) continue;
    const int exponent = (bits >> 10) & 31;
    const double want = std::ldexp((exponent == 0 ? 0 : 1024) + (bits & 0x3ff),
                                   (exponent == 0 ? 1 : exponent) - 25);
    ASSERT_EQ(std::fabs(static_cast<double>(value)), want) << half;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << half;
  }
}

/// Each half, the border to the next one, and the floats beside both.
std::vector<float> edge_values() {
  std::vector<float> values;
  const auto around = [&](float value) {
    for (const int step : {-1, 0, 1}) {
      const auto bits =
          static_cast<uint32_t>(static_cast<int64_t>(std::bit_cast<uint32_t>(value)) + step);
      values.push_back(std::bit_cast<float>(bits));
    }
  };
  for (uint32_t half = 1; half < 0x7c00; ++half) {
    const float value = widened(static_cast<uint16_t>(half));
    const float before = widened(static_cast<uint16_t>(half - 1));
    around(value);
    around((value + before) / 2);
  }
  around(65520);
  around(std::numeric_limits<float>::min());
  values.push_back(std::numeric_limits<float>::denorm_min());
  return values;
}

TEST(HalfRounding, PlainRoundsToTheNearestEverywhere) {
  for (const float value : edge_values()) {
    const uint16_t want = nearest(static_cast<double>(value));
    ASSERT_EQ(rounded(value), want) << value;
    ASSERT_EQ(rounded(-value), want | 0x8000) << value;
  }
}

TEST(HalfRounding, VersionsGiveTheSameBits) {
  std::vector<float> values = edge_values();
  for (uint32_t i = 0; i < 100'000; ++i) {  // any bits: infinities and NaNs among them
    values.push_back(std::bit_cast<float>(i * 2654435761U));
  }
  for (const uint32_t nan : {0x7f800001U, 0x7fbfffffU, 0x7fc00000U, 0x7fffffffU, 0xff800001U}) {
    values.push_back(std::bit_cast<float>(nan));
  }
  std::vector<uint16_t> halves(0x10000);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<uint16_t> want_rounded(values.size()), got_rounded(values.size());
  std::vector<float> want_widened(halves.size()), got_widened(halves.size());
  plain().narrow(values.data(), want_rounded.data(), values.size());
  plain().widen(halves.data(), want_widened.data(), halves.size());
  for (const Kernels* sut : available_kernels(Format::kFp16)) {
    SCOPED_TRACE(std::string(sut->name));
    sut->narrow(values.data(), got_rounded.data(), values.size());
    sut->widen(halves.data(), got_widened.data(), halves.size());
    EXPECT_EQ(got_rounded, want_rounded);
    EXPECT_EQ(std::memcmp(got_widened.data(), want_widened.data(), halves.size() * sizeof(float)),
              0);
  }
}

TEST(HalfRounding, TailsOfAnyLengthStayInside) {
  for (const Kernels* sut : available_kernels(Format::kFp16)) {
    for (size_t n = 0; n < 40; ++n) {
      std::vector<float> values(n + 2, 7);
      std::vector<uint16_t> halves(n + 2, 0x1111);
      for (size_t i = 0; i < n; ++i) values[i + 1] = static_cast<float>(i) * 0.25F;
      sut->narrow(values.data() + 1, halves.data() + 1, n);
      ASSERT_EQ(halves.front(), 0x1111);
      ASSERT_EQ(halves.back(), 0x1111);
      std::vector<float> back(n + 2, 7);
      sut->widen(halves.data() + 1, back.data() + 1, n);
      ASSERT_EQ(back, values) << sut->name << " " << n;
    }
  }
}

}  // namespace
}  // namespace npu::model
