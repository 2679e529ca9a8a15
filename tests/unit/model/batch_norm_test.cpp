// Batch norm through the same passes that training uses: golden values and a gradient check against
// fp64.
#include "model/batch_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/passes.hpp"
#include "random_values.hpp"

namespace npu::model {
namespace {

/// A batch norm with memory of its own and the passes to run it.
class Layer {
 public:
  explicit Layer(size_t channels, int threads = 1, std::string_view kernels = "")
      : passes(select_kernels(kernels), threads) {
    bn.channels = channels;
    bn.width = virtual_width(channels);
    vectors_.resize(BatchNorm::kWideVectors * bn.width);
    doubles_.resize(BatchNorm::kDoubleVectors * channels);
    small_.resize(6 * channels);
    partial_.resize(Passes::partial_floats(threads, bn.width));
    passes.bind(partial_.data(), bn.width);
    float* wide = vectors_.data();
    for (float** slot : {&bn.mean, &bn.scale, &bn.shift, &bn.a, &bn.b, &bn.c}) {
      *slot = wide;
      wide += bn.width;
    }
    bn.sum = doubles_.data();
    bn.square = bn.sum + channels;
    bn.inv_std = bn.square + channels;
    float* small = small_.data();
    for (float** slot : {&bn.weight, &bn.bias, &bn.weight_gradient, &bn.bias_gradient,
                         &bn.running_mean, &bn.running_var}) {
      *slot = small;
      small += channels;
    }
    std::fill_n(bn.weight, channels, 1.0F);
    std::fill_n(bn.running_var, channels, 1.0F);
  }

  void forward(const std::vector<float>& y) {
    bn.begin_forward(y.data());
    passes.moments(y.data(), y.size(), bn, {});
    bn.finish_forward(y.size() / bn.channels);
  }

  /// Input gradient of relu(bn(y)) for the output gradient dz.
  std::vector<float> backward(const std::vector<float>& dz, std::vector<float> y) {
    std::vector<float> dy(y.size());
    bn.begin_backward();
    passes.reduce_masked(dz.data(), as_stored(y.data()), y.size(), bn, {});
    bn.finish_backward(y.size() / bn.channels);
    passes.bn_backward({.fp32 = dz.data()}, as_stored(y.data()), y.size(), bn, true, {}, dy.data());
    return dy;
  }

  BatchNorm bn;
  Passes passes;

 private:
  std::vector<float> vectors_, small_, partial_;
  std::vector<double> doubles_;
};

TEST(BatchNorm, GoldenValuesOfOneChannel) {
  Layer sut(1);
  const std::vector<float> y{1, 2, 3, 4};
  sut.forward(y);
  const double want[] = {-1.341635419968927, -0.447211806656309, 0.447211806656309,
                         1.341635419968927};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(y[i] * sut.bn.scale[0] + sut.bn.shift[0]), want[i], 5e-7);
  }
  EXPECT_FLOAT_EQ(sut.bn.running_mean[0], 0.25F);
  EXPECT_FLOAT_EQ(sut.bn.running_var[0], 1.0666666666666667F);
}

TEST(BatchNorm, VarianceSurvivesALargeMean) {
  Layer sut(4);
  std::vector<float> y = test::random_values(4 * 4000, 3);
  for (float& v : y) v += 1000;
  sut.forward(y);
  // Uniform in [-1, 1): variance 1/3; fp32 keeps about 6e-5 of each value at 1000.
  EXPECT_NEAR(1 / sut.bn.inv_std[2], std::sqrt(1.0 / 3.0), 0.02);
  EXPECT_NEAR(static_cast<double>(sut.bn.mean[2]), 1000, 0.05);
}

TEST(BatchNorm, RunningStatisticsNormaliseInEvaluation) {
  Layer sut(2);
  sut.bn.running_mean[1] = 3;
  sut.bn.running_var[1] = 4;
  sut.bn.weight[1] = 2;
  sut.bn.bias[1] = 5;
  sut.bn.use_running();
  EXPECT_NEAR(static_cast<double>(7 * sut.bn.scale[1] + sut.bn.shift[1]), 9, 1e-4);
}

/// relu(bn(y)) in fp64, summed with weights dz: the scalar whose derivative the backward pass is.
double objective(const std::vector<double>& y, const std::vector<float>& dz, const BatchNorm& bn) {
  const size_t rows = y.size() / bn.channels;
  double total = 0;
  for (size_t c = 0; c < bn.channels; ++c) {
    double mean = 0;
    double variance = 0;
    for (size_t r = 0; r < rows; ++r) mean += y[r * bn.channels + c] / static_cast<double>(rows);
    for (size_t r = 0; r < rows; ++r) {
      const double d = y[r * bn.channels + c] - mean;
      variance += d * d / static_cast<double>(rows);
    }
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = r * bn.channels + c;
      const double v =
          (y[i] - mean) / std::sqrt(variance + kBnEps) * static_cast<double>(bn.weight[c]) +
          static_cast<double>(bn.bias[c]);
      total += v > 0 ? v * static_cast<double>(dz[i]) : 0;
    }
  }
  return total;
}

TEST(BatchNorm, InputGradientMatchesNumericGradient) {
  Layer sut(3);
  const std::vector<float> y = test::random_values(3 * 11, 5);
  const std::vector<float> dz = test::random_values(3 * 11, 6);
  std::copy_n(std::vector<float>{0.5F, 1.5F, -1.0F}.data(), 3, sut.bn.weight);
  std::copy_n(std::vector<float>{0.1F, -0.2F, 0.3F}.data(), 3, sut.bn.bias);
  sut.forward(y);
  const std::vector<float> dy = sut.backward(dz, y);
  std::vector<double> at(y.begin(), y.end());
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double h = 1e-6;
    const double middle = at[i];
    at[i] = middle + h;
    const double above = objective(at, dz, sut.bn);
    at[i] = middle - h;
    const double below = objective(at, dz, sut.bn);
    at[i] = middle;
    worst = std::max(worst, std::abs((above - below) / (2 * h) - static_cast<double>(dy[i])));
  }
  EXPECT_LE(worst, 2e-6);
}

TEST(BatchNorm, BitsDependNeitherOnThreadsNorOnInstructionSet) {
  const size_t channels = 16;
  const std::vector<float> y = test::random_values(channels * 9001, 7);
  const std::vector<float> dz = test::random_values(channels * 9001, 8);
  Layer want(channels, 1, "plain");
  want.forward(y);
  const std::vector<float> want_dy = want.backward(dz, y);
  for (const int threads : {1, 2, 3}) {
    Layer sut(channels, threads);
    sut.forward(y);
    const std::vector<float> dy = sut.backward(dz, y);
    EXPECT_EQ(std::memcmp(dy.data(), want_dy.data(), dy.size() * sizeof(float)), 0) << threads;
    EXPECT_EQ(std::memcmp(sut.bn.scale, want.bn.scale, channels * sizeof(float)), 0) << threads;
  }
}

}  // namespace
}  // namespace npu::model
