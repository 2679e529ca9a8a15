#include "model/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace npu::model {
namespace {

LossAndHits loss_of(std::vector<float> logits, std::vector<int32_t> labels, float smoothing = 0) {
  const int classes = static_cast<int>(logits.size() / labels.size());
  const auto result = softmax_cross_entropy(logits, labels, classes, smoothing, 1, {});
  EXPECT_TRUE(result);
  return *result;
}

TEST(SoftmaxCrossEntropy, GoldenValues) {
  EXPECT_NEAR(loss_of({2, 1, 0.1F}, {0}).loss_sum, 0.4170300162778335, 3e-7);
  EXPECT_NEAR(loss_of({2, 1, 0.1F}, {0}, 0.1F).loss_sum, 0.5136966829445004, 3e-7);
}

TEST(SoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  EXPECT_NEAR(loss_of({3e38F, -3e38F}, {0}).loss_sum, 0, 1e-6);
}

TEST(SoftmaxCrossEntropy, GradientMatchesNumericGradient) {
  for (const float smoothing : {0.0F, 0.1F}) {
    std::vector<float> logits{0.3F, -1.2F, 2.0F, 0.5F, 1.0F, -0.5F};
    const std::vector<int32_t> labels{2, 0};
    std::vector<float> gradient(6);
    ASSERT_TRUE(softmax_cross_entropy(logits, labels, 3, smoothing, 0.5F, gradient));
    for (size_t i = 0; i < logits.size(); ++i) {
      std::vector<float> above = logits;
      std::vector<float> below = logits;
      above[i] += 0.01F;
      below[i] -= 0.01F;
      const double numeric = (loss_of(above, labels, smoothing).loss_sum -
                              loss_of(below, labels, smoothing).loss_sum) /
                             0.02 * 0.5;
      EXPECT_NEAR(static_cast<double>(gradient[i]), numeric, 5e-5);
    }
  }
}

TEST(SoftmaxCrossEntropy, GradientMayOverwriteTheLogits) {
  std::vector<float> logits{2, 1, 0.1F};
  std::vector<float> apart(3);
  const std::vector<int32_t> labels{1};
  ASSERT_TRUE(softmax_cross_entropy(logits, labels, 3, 0, 1, apart));
  ASSERT_TRUE(softmax_cross_entropy(logits, labels, 3, 0, 1, logits));
  EXPECT_EQ(logits, apart);
}

TEST(TopK, TiesGoToTheLowestIndex) {
  EXPECT_EQ(loss_of({1, 1, 1}, {0}).top1, 1);
  EXPECT_EQ(loss_of({1, 1, 1}, {1}).top1, 0);
  EXPECT_EQ(loss_of({1, 1, 1, 1, 1, 1}, {4}).top5, 1);
  EXPECT_EQ(loss_of({1, 1, 1, 1, 1, 1}, {5}).top5, 0);
}

TEST(TopK, NanLogitIsAMiss) {
  const LossAndHits got = loss_of({std::numeric_limits<float>::quiet_NaN(), 5}, {1});
  EXPECT_EQ(got.top1, 0);
  EXPECT_EQ(got.top5, 0);
  EXPECT_TRUE(std::isnan(got.loss_sum));
}

TEST(TopK, FewerThanFiveClassesAlwaysHit) { EXPECT_EQ(loss_of({3, 2, 1}, {2}).top5, 1); }

TEST(SoftmaxCrossEntropy, LabelOutsideIsNamedAndNothingIsWritten) {
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<int32_t> labels{0, 2};
  std::vector<float> gradient(4, 7);
  const auto result = softmax_cross_entropy(logits, labels, 2, 0, 1, gradient);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_NE(result.error().message.find("label 2 of sample 1"), std::string::npos);
  EXPECT_EQ(gradient, std::vector<float>(4, 7));
}

}  // namespace
}  // namespace npu::model
