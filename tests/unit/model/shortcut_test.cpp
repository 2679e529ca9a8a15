#include "model/shortcut.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace npu::model {
namespace {

TEST(OptionA, TakesEverySecondPixelAndCentresChannels) {
  const OptionA g{.in_h = 3, .in_w = 3, .in_c = 2, .out_h = 2, .out_w = 2, .out_c = 4};
  std::vector<float> in(18);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  std::vector<float> out(16, -1);
  option_a_forward(g, in.data(), 1, out.data());
  EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 0, 0, 5, 6, 0, 0, 13, 14, 0, 0, 17, 18, 0}));
}

TEST(OptionA, BackwardIsTheTransposeOfForward) {
  const OptionA g{.in_h = 4, .in_w = 3, .in_c = 2, .out_h = 2, .out_w = 2, .out_c = 4};
  std::vector<float> in(2 * 24);
  std::vector<float> dout(2 * 16);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < dout.size(); ++i) dout[i] = static_cast<float>(i % 5) - 2;
  std::vector<float> out(dout.size());
  std::vector<float> dx(in.size(), 0.0F);
  option_a_forward(g, in.data(), 2, out.data());
  option_a_backward(g, dout.data(), 2, dx.data());
  float forward = 0;
  float backward = 0;
  for (size_t i = 0; i < out.size(); ++i) forward += out[i] * dout[i];
  for (size_t i = 0; i < in.size(); ++i) backward += in[i] * dx[i];
  EXPECT_EQ(forward, backward);
}

TEST(AveragePool, AveragesAndSpreadsBack) {
  const std::vector<float> z{1, 10, 3, 30, 5, 50, 7, 70};  // two images, two pixels, two channels
  std::vector<float> features(4);
  average_pool_forward(z.data(), 2, 2, 2, features.data());
  EXPECT_EQ(features, (std::vector<float>{2, 20, 6, 60}));
  std::vector<float> dz(8);
  average_pool_backward(features.data(), 2, 2, 2, dz.data());
  EXPECT_EQ(dz, (std::vector<float>{1, 10, 1, 10, 3, 30, 3, 30}));
}

}  // namespace
}  // namespace npu::model
