// Every compiled version of the passes against plain, bit for bit, on shapes with tails; plain
// against fp64.
#include "model/kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "random_values.hpp"

namespace npu::model {
namespace {

using test::random_values;

const Kernels& plain(Format format = Format::kFp32) { return select_kernels("plain", format); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Shape {
  size_t elements;
  size_t width;
};

const Shape kShapes[] = {
    {1, 1},     {16, 16},         {17 * 48, 48},        {256 * 9, 256}, {256 * 9 + 32, 256},
    {5 * 7, 7}, {2048 * 5, 2048}, {300 * 13 + 100, 300}};

/// A tensor in the format under test.
using Bytes = std::vector<std::byte>;

Bytes stored(Format format, const std::vector<float>& values) {
  Bytes bytes(values.size() * format_bytes(format));
  plain(format).narrow(values.data(), bytes.data(), values.size());
  return bytes;
}

/// Inputs and outputs of all passes on one shape.
struct Data {
  explicit Data(const Shape& s, Format f = Format::kFp32)
      : extent{s.elements, s.width},
        format(f),
        x(random_values(s.elements, 1)),
        z(random_values(s.elements, 3)),
        y(stored(f, random_values(s.elements, 2))),
        y2(stored(f, random_values(s.elements, 4))),
        kept(stored(f, random_values(s.elements, 5))) {
    for (uint32_t i = 0; i < 6; ++i) {
      vectors.push_back(random_values(s.width, 10 + i));
      sums.push_back(random_values(s.width, 20 + i));
    }
    out.resize(s.elements, -7);
    w = random_values(s.elements, 6);
  }

  Extent extent;
  Format format;
  std::vector<float> x, z, w, out;
  Bytes y, y2, kept;
  std::vector<std::vector<float>> vectors, sums;
};

void run_forward(const Kernels& k, Data& d) {
  for (const bool keep : {false, true}) {
    k.moments({.x = d.x.data(),
               .keep = keep ? d.kept.data() : nullptr,
               .pivot = d.vectors[0].data(),
               .sum = d.sums[0].data(),
               .square = d.sums[1].data()},
              d.extent);
  }
  NormaliseArgs args{};
  args.y = d.y.data();
  args.scale = d.vectors[0].data();
  args.shift = d.vectors[1].data();
  args.out = d.out.data();
  k.normalise(args, d.extent);
  args.residual_fp32 = d.out.data();
  k.normalise(args, d.extent);  // in place over the residual
  args.residual_fp32 = nullptr;
  args.residual = d.kept.data();
  args.keep = d.kept.data();
  k.normalise(args, d.extent);
  args.out = nullptr;
  args.residual = d.y2.data();
  args.residual_scale = d.vectors[2].data();
  args.residual_shift = d.vectors[3].data();
  k.normalise(args, d.extent);
}

void run_backward(const Kernels& k, Data& d) {
  for (const bool keep : {false, true}) {
    k.reduce_masked({.dz = d.x.data(),
                     .keep = keep ? d.kept.data() : nullptr,
                     .y = d.y.data(),
                     .scale = d.vectors[0].data(),
                     .shift = d.vectors[1].data(),
                     .mean = d.vectors[2].data(),
                     .sum = d.sums[0].data(),
                     .dot = d.sums[1].data()},
                    d.extent);
  }
  for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const bool masked = (variant & 1) != 0;
    const bool from_stored = (variant & 2) != 0;
    const bool keep = (variant & 4) != 0;
    k.bn_backward({.dz = from_stored ? d.kept.data() : nullptr,
                   .dz_fp32 = from_stored ? nullptr : d.out.data(),
                   .y = d.y.data(),
                   .scale = masked ? d.vectors[0].data() : nullptr,
                   .shift = d.vectors[1].data(),
                   .mean = d.vectors[2].data(),
                   .a = d.vectors[3].data(),
                   .b = d.vectors[4].data(),
                   .c = d.vectors[5].data(),
                   .keep = keep ? d.kept.data() : nullptr,
                   .out = keep ? nullptr : d.out.data()},
                  d.extent);
  }
  for (const int variant : {0, 1, 2, 3, 4, 5}) {
    const void* add = variant % 3 == 1 ? d.kept.data() : nullptr;
    const float* add_fp32 = variant % 3 == 2 ? d.out.data() : nullptr;
    const bool second = variant >= 3;
    k.join({.dx = d.x.data(),
            .add = add,
            .add_fp32 = add_fp32,
            .z = d.z.data(),
            .out = d.kept.data(),
            .y = d.y.data(),
            .mean = d.vectors[0].data(),
            .sum = d.sums[2].data(),
            .dot = d.sums[3].data(),
            .y2 = second ? d.y2.data() : nullptr,
            .mean2 = d.vectors[1].data(),
            .dot2 = d.sums[4].data()},
           d.extent);
    k.merge({.dx = d.x.data(), .add = add, .add_fp32 = add_fp32, .out = d.kept.data()},
            d.extent.elements);
  }
  k.add(d.x.data(), d.out.data(), d.out.data(), d.extent.elements);
}

void run_conversions(const Kernels& k, Data& d) {
  k.narrow(d.x.data(), d.kept.data(), d.extent.elements);
  k.widen(d.kept.data(), d.out.data(), d.extent.elements);
  k.round(d.z.data(), d.w.data(), d.extent.elements);
}

void run_sgd(const Kernels& k, Data& d) {
  for (const int variant : {0, 1, 2}) {
    k.sgd({.parameters = d.w.data(),
           .momentum = d.out.data(),
           .gradient = d.x.data(),
           .lr = 0.1F,
           .mu = 0.9F,
           .decay = 1e-4F,
           .gradient_scale = 0.125F,
           .nesterov = variant == 1,
           .tf = variant == 2},
          d.extent.elements);
  }
}

class EveryVersion : public testing::TestWithParam<const Kernels*> {};

TEST_P(EveryVersion, GivesThePlainBits) {
  const Format format = GetParam()->format;
  for (const Shape& shape : kShapes) {
    for (const auto run : {run_forward, run_backward, run_conversions, run_sgd}) {
      Data want(shape, format);
      Data got(shape, format);
      run(plain(format), want);
      run(*GetParam(), got);
      EXPECT_TRUE(same_bits(got.out, want.out)) << shape.elements << " by " << shape.width;
      EXPECT_TRUE(same_bits(got.w, want.w)) << shape.elements << " by " << shape.width;
      EXPECT_EQ(got.kept, want.kept) << shape.elements << " by " << shape.width;
      for (size_t i = 0; i < want.sums.size(); ++i) {
        EXPECT_TRUE(same_bits(got.sums[i], want.sums[i]))
            << "sum " << i << ", " << shape.elements << " by " << shape.width;
      }
    }
  }
}

class EveryHalfVersion : public testing::TestWithParam<const Kernels*> {};

TEST_P(EveryHalfVersion, ConvertsEveryHalfAndItsNeighboursLikePlain) {
  const Kernels& sut = *GetParam();
  const Kernels& reference = plain(sut.format);
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> got(halves.size());
  std::vector<float> want(halves.size());
  sut.widen(halves.data(), got.data(), halves.size());
  reference.widen(halves.data(), want.data(), halves.size());
  EXPECT_TRUE(same_bits(got, want));
  // All values that a half stands for, and what is just above, just below and half way.
  std::vector<float> values;
  for (const float v : want) {
    const auto bits = std::bit_cast<uint32_t>(v);
    for (const uint32_t step : {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U}) {
      values.push_back(std::bit_cast<float>(bits + step));
      values.push_back(std::bit_cast<float>(bits - step));
    }
  }
  std::vector<uint16_t> got_halves(values.size());
  std::vector<uint16_t> want_halves(values.size());
  sut.narrow(values.data(), got_halves.data(), values.size());
  reference.narrow(values.data(), want_halves.data(), values.size());
  EXPECT_EQ(got_halves, want_halves);
  for (size_t i = 0; i < values.size(); ++i) {
    // One by one, as the tail of a row: the same as in a vector.
    uint16_t one = 0;
    sut.narrow(&values[i], &one, 1);
    ASSERT_EQ(one, want_halves[i]) << values[i];
  }
}

TEST_P(EveryVersion, LetsNanThroughTheRelu) {
  const Format format = GetParam()->format;
  Data d({64, 16}, format);
  d.x[5] = std::nanf("");
  const Bytes y = stored(format, d.x);
  const std::vector<float> ones(16, 1.0F);
  const std::vector<float> zeros(16, 0.0F);
  NormaliseArgs args{};
  args.y = y.data();
  args.scale = ones.data();
  args.shift = zeros.data();
  args.out = d.out.data();
  GetParam()->normalise(args, d.extent);
  EXPECT_TRUE(std::isnan(d.out[5]));
}

std::vector<const Kernels*> kernels_of(std::initializer_list<Format> formats) {
  std::vector<const Kernels*> all;
  for (const Format format : formats) {
    const auto versions = available_kernels(format);
    all.insert(all.end(), versions.begin(), versions.end());
  }
  return all;
}

std::string format_name(Format format) {
  if (format == Format::kFp16) return "fp16";
  return format == Format::kBf16 ? "bf16" : "fp32";
}

std::string version_name(const testing::TestParamInfo<const Kernels*>& test) {
  return std::string(test.param->name) + "_" + format_name(test.param->format);
}

INSTANTIATE_TEST_SUITE_P(
    Available, EveryVersion,
    testing::ValuesIn(kernels_of({Format::kFp32, Format::kFp16, Format::kBf16})), version_name);
INSTANTIATE_TEST_SUITE_P(Available, EveryHalfVersion,
                         testing::ValuesIn(kernels_of({Format::kFp16, Format::kBf16})),
                         version_name);

// Source: torch.half and g++'s _Float16.
TEST(PlainKernels, RoundToFp16AsTorchDoes) {
  const struct {
    float in;
    float out;
  } rows[] = {{65519, 65504},
              {65520, INFINITY},
              {2049, 2048},
              {2051, 2052},
              {0x1p-25F, 0},
              {std::nextafter(0x1p-25F, 1.0F), 0x1p-24F},
              {-65520, -INFINITY},
              {0x1p-14F, 0x1p-14F},
              {1.0F + 0x1p-11F, 1.0F},
              {1.0F + 3 * 0x1p-11F, 1.0F + 0x1p-9F}};
  for (const auto& row : rows) {
    float got = 0;
    plain(Format::kFp16).round(&row.in, &got, 1);
    EXPECT_EQ(got, row.out) << row.in;
  }
}

TEST(PlainKernels, RoundToBf16ToNearestEven) {
  const struct {
    float in;
    float out;
  } rows[] = {{1.0F + 0x1p-8F, 1.0F},
              {1.0F + 3 * 0x1p-8F, 1.0F + 0x1p-6F},
              {0x1.fep127F, 0x1.fep127F},
              {0x1.ffp127F, INFINITY},
              {-0.0F, -0.0F}};
  for (const auto& row : rows) {
    float got = 1;
    plain(Format::kBf16).round(&row.in, &got, 1);
    EXPECT_EQ(got, row.out) << row.in;
  }
}

#if defined(__FLT16_MAX__)
TEST(PlainKernels, Fp16MatchesTheCompilersOwn) {
  for (uint32_t bits = 1; bits < 0xff800000U; bits += 4999) {
    const float in = std::bit_cast<float>(bits);
    if (std::isnan(in)) continue;
    float got = 0;
    plain(Format::kFp16).round(&in, &got, 1);
    EXPECT_EQ(got, static_cast<float>(static_cast<_Float16>(in))) << in;
  }
}
#endif

TEST(PlainKernels, MomentsMatchFp64) {
  Data d({256 * 40, 256});
  std::vector<float> sum(256, 0.0F);
  std::vector<float> square(256, 0.0F);
  plain().moments({.x = d.x.data(),
                   .keep = nullptr,
                   .pivot = d.vectors[0].data(),
                   .sum = sum.data(),
                   .square = square.data()},
                  d.extent);
  for (size_t c = 0; c < 256; ++c) {
    double s = 0;
    double q = 0;
    for (size_t r = 0; r < 40; ++r) {
      const double v = static_cast<double>(d.x[r * 256 + c]) - static_cast<double>(d.vectors[0][c]);
      s += v;
      q += v * v;
    }
    EXPECT_NEAR(static_cast<double>(sum[c]), s, 3e-5);
    EXPECT_NEAR(static_cast<double>(square[c]), q, 3e-5);
  }
}

TEST(PlainKernels, JoinMasksAddsAndSums) {
  const std::vector<float> dx{1, 2, 3, 4};
  const std::vector<float> add{10, 20, 30, 40};
  const std::vector<float> z{1, 0, -1, 2};
  const std::vector<float> y{5, 6, 7, 8};
  const std::vector<float> mean{1, 2};
  std::vector<float> out(4), sum(2), dot(2);
  plain().join({.dx = dx.data(),
                .add = add.data(),
                .add_fp32 = nullptr,
                .z = z.data(),
                .out = out.data(),
                .y = y.data(),
                .mean = mean.data(),
                .sum = sum.data(),
                .dot = dot.data(),
                .y2 = nullptr,
                .mean2 = nullptr,
                .dot2 = nullptr},
               {4, 2});
  EXPECT_EQ(out, (std::vector<float>{11, 0, 0, 44}));
  EXPECT_EQ(sum, (std::vector<float>{11, 44}));
  EXPECT_EQ(dot, (std::vector<float>{11 * 4, 44 * 6}));
}

TEST(SelectKernels, CapLimitsAndUnknownCapDoesNot) {
  EXPECT_EQ(select_kernels("plain").name, "plain");
  EXPECT_EQ(&select_kernels(""), available_kernels().front());
  EXPECT_EQ(&select_kernels("fastest"), available_kernels().front());
  EXPECT_NE(select_kernels("avx2").name, "avx512");
  EXPECT_EQ(available_kernels().back()->name, "plain");
}

TEST(SelectKernels, EnvironmentVariableCaps) {
  ASSERT_EQ(setenv("NPU_KERNELS", "plain", 1), 0);
  EXPECT_EQ(default_kernels().name, "plain");
  unsetenv("NPU_KERNELS");
  EXPECT_EQ(&default_kernels(), available_kernels().front());
}

}  // namespace
}  // namespace npu::model
