#include "model/init.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/network.hpp"

namespace npu::model {
namespace {

Parameter conv_512() {
  return {.name = "layer4.1.conv2.weight",
          .shape = {512, 512, 3, 3},
          .role = Role::kConvWeight,
          .count = 512 * 512 * 9,
          .physical = 512 * 512 * 9,
          .layout = "",
          .offset = 0};
}

TEST(DrawParameter, ConvolutionIsKaimingNormalByFanOut) {
  std::vector<float> values(512 * 512 * 9);
  draw_parameter(conv_512(), 5, 0, 512, values);
  double sum = 0;
  double square = 0;
  double fourth = 0;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    sum += v;
    square += v * v;
    fourth += v * v * v * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(std::sqrt(square / n), std::sqrt(2.0 / (9 * 512)), 3e-5);
  EXPECT_NEAR(std::sqrt(square / n), 0.02083, 4e-5);  // torch drew 0.020826
  EXPECT_NEAR(sum / n, 0, 5e-5);
  EXPECT_NEAR(fourth * n / (square * square), 3, 0.02);  // the kurtosis of a normal distribution
}

TEST(DrawParameter, FcIsUniformWithinItsBound) {
  Parameter fc = conv_512();
  fc.role = Role::kFcWeight;
  std::vector<float> values(10000);
  draw_parameter(fc, 0, 1, 64, values);
  double square = 0;
  for (const float value : values) {
    EXPECT_LE(std::abs(value), 0.125F);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(std::sqrt(square / 10000), 0.125 / std::sqrt(3.0), 2e-3);
}

TEST(DrawTfParameter, ConvolutionIsTruncatedNormalByFanIn) {
  Parameter conv = conv_512();
  conv.shape = {1024, 256, 3, 3};  // as many values, another fan_in than fan_out
  std::vector<float> values(512 * 512 * 9);
  draw_parameter(conv, 5, 0, 512, values, InitForm::kTf);
  const double want = std::sqrt(2.0 / (9 * 256));
  double square = 0;
  double largest = 0;
  for (const float value : values) {
    square += static_cast<double>(value) * static_cast<double>(value);
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(values.size())), want, 2e-3 * want);
  const double cut = 2 * want / 0.87962566103423978;
  EXPECT_LE(largest, cut * 1.0000001);
  EXPECT_GE(largest, 0.999 * cut);
}

TEST(DrawTfParameter, ClassifierIsNarrowNormalWithoutBias) {
  Parameter fc = conv_512();
  fc.role = Role::kFcWeight;
  std::vector<float> values(100'000);
  draw_parameter(fc, 0, 1, 64, values, InitForm::kTf);
  double square = 0;
  double fourth = 0;
  for (const float value : values) {
    const double s = static_cast<double>(value) * static_cast<double>(value);
    square += s;
    fourth += s * s;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(std::sqrt(square / n), 0.01, 1e-4);
  EXPECT_NEAR(fourth * n / (square * square), 3, 0.06);
  fc.role = Role::kFcBias;
  draw_parameter(fc, 0, 1, 64, values, InitForm::kTf);
  EXPECT_EQ(values, std::vector<float>(100'000, 0.0F));
}

TEST(DrawParameter, BatchNormAndFcBiasAreTorchsDefaults) {
  Parameter p = conv_512();
  std::vector<float> values(512);
  p.role = Role::kBnWeight;
  draw_parameter(p, 1, 3, 512, values);
  EXPECT_EQ(values, std::vector<float>(512, 1.0F));
  p.role = Role::kBnBias;
  draw_parameter(p, 2, 3, 512, values);
  EXPECT_EQ(values, std::vector<float>(512, 0.0F));
  p.role = Role::kFcBias;
  draw_parameter(p, 3, 3, 512, values);
  const float bound = 1 / std::sqrt(512.0F);
  for (const float value : values) EXPECT_LE(std::abs(value), bound);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.9F * bound);
  EXPECT_LT(*std::min_element(values.begin(), values.end()), -0.9F * bound);
}

TEST(Initialise, RunningStatisticsStartAsTorchsDo) {
  HeapAllocator heap;
  auto network =
      Network::plan({.arch = "resnet8", .num_classes = 10, .height = 8, .width = 8, .batch = 2});
  ASSERT_TRUE(network);
  ASSERT_TRUE(network->bind(heap));
  network->initialise(0);
  const auto state = network->state();
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i].kind == StateKind::kParameter) continue;
    if (state[i].kind == StateKind::kBatchesTracked) {
      EXPECT_EQ(network->batches_tracked(i), 0) << state[i].name;
      continue;
    }
    std::vector<float> values(state[i].count);
    network->export_state(i, values);
    const float want = state[i].name.ends_with("running_var") ? 1.0F : 0.0F;
    EXPECT_EQ(values, std::vector<float>(values.size(), want)) << state[i].name;
  }
  const std::vector<float> images(2 * 8 * 8 * 3, 0.5F);
  const std::vector<int32_t> labels{0, 1};
  ASSERT_TRUE(network->forward_train(images, labels));
  EXPECT_EQ(state[5].name, "bn1.num_batches_tracked");
  EXPECT_EQ(network->batches_tracked(5), 1);
}

TEST(DrawParameter, KeyedBySeedAndIndexOnly) {
  std::vector<float> a(100), b(100), other_seed(100), other_index(100);
  draw_parameter(conv_512(), 5, 7, 512, a);
  draw_parameter(conv_512(), 5, 7, 512, b);
  draw_parameter(conv_512(), 5, 8, 512, other_seed);
  draw_parameter(conv_512(), 6, 7, 512, other_index);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other_seed);
  EXPECT_NE(a, other_index);
}

}  // namespace
}  // namespace npu::model
