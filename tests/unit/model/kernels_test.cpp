// Every compiled version of the passes against plain, bit for bit, on shapes with tails; plain
// against fp64.
#include "model/kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "random_values.hpp"

namespace npu::model {
namespace {

using test::random_values;

const Kernels& plain() { return select_kernels("plain"); }

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

/// Inputs and outputs of all passes on one shape.
struct Data {
  explicit Data(const Shape& s)
      : extent{s.elements, s.width},
        x(random_values(s.elements, 1)),
        y(random_values(s.elements, 2)),
        z(random_values(s.elements, 3)),
        w(random_values(s.elements, 4)) {
    for (uint32_t i = 0; i < 6; ++i) {
      vectors.push_back(random_values(s.width, 10 + i));
      sums.push_back(random_values(s.width, 20 + i));
    }
    out.resize(s.elements, -7);
  }

  Extent extent;
  std::vector<float> x, y, z, w, out;
  std::vector<std::vector<float>> vectors, sums;
};

void run_forward(const Kernels& k, Data& d) {
  k.moments({d.x.data(), d.vectors[0].data(), d.sums[0].data(), d.sums[1].data()}, d.extent);
  NormaliseArgs args{d.x.data(), d.vectors[0].data(), d.vectors[1].data(), nullptr, nullptr,
                     nullptr,    d.out.data()};
  k.normalise(args, d.extent);
  args.y = d.y.data();
  args.residual = d.out.data();
  k.normalise(args, d.extent);  // in place over the residual
  args.residual_scale = d.vectors[2].data();
  args.residual_shift = d.vectors[3].data();
  k.normalise(args, d.extent);
}

void run_backward(const Kernels& k, Data& d) {
  k.reduce_masked({d.x.data(), d.y.data(), d.vectors[0].data(), d.vectors[1].data(),
                   d.vectors[2].data(), d.sums[0].data(), d.sums[1].data()},
                  d.extent);
  for (const bool masked : {true, false}) {
    k.bn_backward({masked ? d.x.data() : d.out.data(), d.y.data(),
                   masked ? d.vectors[0].data() : nullptr, d.vectors[1].data(), d.vectors[2].data(),
                   d.vectors[3].data(), d.vectors[4].data(), d.vectors[5].data(), d.out.data()},
                  d.extent);
  }
  for (const int variant : {0, 1, 2, 3}) {
    k.join({.dx = d.x.data(),
            .add = (variant & 1) != 0 ? d.out.data() : nullptr,
            .z = d.z.data(),
            .out = d.out.data(),
            .y = d.y.data(),
            .mean = d.vectors[0].data(),
            .sum = d.sums[2].data(),
            .dot = d.sums[3].data(),
            .y2 = (variant & 2) != 0 ? d.w.data() : nullptr,
            .mean2 = d.vectors[1].data(),
            .dot2 = d.sums[4].data()},
           d.extent);
  }
  k.add(d.x.data(), d.out.data(), d.out.data(), d.extent.elements);
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
  for (const Shape& shape : kShapes) {
    for (const auto run : {run_forward, run_backward, run_sgd}) {
      Data want(shape);
      Data got(shape);
      run(plain(), want);
      run(*GetParam(), got);
      EXPECT_TRUE(same_bits(got.out, want.out)) << shape.elements << " by " << shape.width;
      EXPECT_TRUE(same_bits(got.w, want.w)) << shape.elements << " by " << shape.width;
      for (size_t i = 0; i < want.sums.size(); ++i) {
        EXPECT_TRUE(same_bits(got.sums[i], want.sums[i]))
            << "sum " << i << ", " << shape.elements << " by " << shape.width;
      }
    }
  }
}

TEST_P(EveryVersion, LetsNanThroughTheRelu) {
  Data d({64, 16});
  d.x[5] = std::nanf("");
  const std::vector<float> ones(16, 1.0F);
  const std::vector<float> zeros(16, 0.0F);
  GetParam()->normalise(
      {d.x.data(), ones.data(), zeros.data(), nullptr, nullptr, nullptr, d.out.data()}, d.extent);
  EXPECT_TRUE(std::isnan(d.out[5]));
}

INSTANTIATE_TEST_SUITE_P(Available, EveryVersion,
                         testing::ValuesIn(available_kernels().begin(), available_kernels().end()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(PlainKernels, MomentsMatchFp64) {
  Data d({256 * 40, 256});
  std::vector<float> sum(256, 0.0F);
  std::vector<float> square(256, 0.0F);
  plain().moments({d.x.data(), d.vectors[0].data(), sum.data(), square.data()}, d.extent);
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
