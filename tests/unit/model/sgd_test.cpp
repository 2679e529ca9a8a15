#include "model/sgd.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace npu::model {
namespace {

/// One parameter p = 1 with gradient 0.5 throughout; the values after three steps.
std::array<double, 3> three_steps(const SgdParams& params, bool decays = true) {
  float p = 1;
  float v = 0;
  const float g = 0.5F;
  std::array<double, 3> values{};
  for (double& value : values) {
    sgd_update({&p, 1}, {&v, 1}, {&g, 1}, params, decays);
    value = static_cast<double>(p);
  }
  return values;
}

void expect_values(const std::array<double, 3>& got, const std::array<double, 3>& want) {
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(got[i], want[i], 2e-7) << "step " << i + 1;
  }
}

TEST(Sgd, GoldenPlainMomentum) {
  expect_values(three_steps({}), {0.94999, 0.8549715001, 0.719446300474999});
}

TEST(Sgd, GoldenNesterov) {
  expect_values(three_steps({.nesterov = true}), {0.904981, 0.769455705361, 0.5974764653564982});
}

TEST(Sgd, GoldenWithoutDecay) {
  expect_values(three_steps({.weight_decay = 0}), {0.95, 0.855, 0.7195});
  expect_values(three_steps({}, false), {0.95, 0.855, 0.7195});
}

TEST(Sgd, GradientScaleComesBeforeDecay) {
  float p = 1;
  float v = 0;
  const float g = 512;
  sgd_update({&p, 1}, {&v, 1}, {&g, 1}, {.gradient_scale = 1.0F / 1024}, true);
  EXPECT_NEAR(static_cast<double>(p), 0.94999, 1e-7);
}

TEST(Sgd, MomentumFormsPartWhenTheRateDrops) {
  std::array<double, 2> after{};
  for (const MomentumForm form : {MomentumForm::kPytorch, MomentumForm::kTf}) {
    float p = 1;
    float v = 0;
    const float g = 0.5F;
    SgdParams params{.weight_decay = 0, .form = form};
    sgd_update({&p, 1}, {&v, 1}, {&g, 1}, params, true);
    params.lr = 0.01F;
    sgd_update({&p, 1}, {&v, 1}, {&g, 1}, params, true);
    after[form == MomentumForm::kTf ? 1 : 0] = static_cast<double>(p);
  }
  EXPECT_NEAR(after[0], 0.95 - 0.01 * 0.95, 1e-7);
  EXPECT_NEAR(after[1], 0.95 - 0.9 * 0.05 - 0.01 * 0.5, 1e-7);
}

TEST(ClipFactor, GoldenOfPytorch) {
  // torch.nn.utils.clip_grad_norm_ on gradients (3, -4, 12) and (0.5, -0.25):
  // norm 13.01201343536377.
  const std::array<double, 5> gradients = {3, -4, 12, 0.5, -0.25};
  double squares = 0;
  for (const double g : gradients) squares += g * g;
  const auto clipped = [&](double max_norm, float unscale, double scale) {
    const auto factor =
        static_cast<double>(clip_factor(squares * scale * scale, unscale, max_norm));
    std::array<double, 5> result{};
    for (size_t i = 0; i < 5; ++i) result[i] = gradients[i] * scale * factor;
    return result;
  };
  const std::array<double, 5> half = {0.11527808010578156, -0.15370410680770874, 0.4611123204231262,
                                      0.019213013350963593, -0.009606506675481796};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(clipped(0.5, 1, 1)[i], half[i], 1e-7);
    EXPECT_NEAR(clipped(1, 1, 1)[i], 2 * half[i], 1e-7);
    EXPECT_EQ(clipped(0.5, 0x1p-10F, 1024), clipped(0.5, 1, 1)) << "of unscaled gradients";
  }
  EXPECT_EQ(clipped(100, 1, 1), gradients) << "short ones stay as they are";
}

TEST(ClipFactor, ZeroGradientsAreNotDividedByZero) { EXPECT_EQ(clip_factor(0, 1, 1e-3), 1); }

TEST(CheckSgd, BadSettingsAreNamed) {
  EXPECT_TRUE(check_sgd({}));
  EXPECT_FALSE(check_sgd({.lr = -1}));
  EXPECT_FALSE(check_sgd({.lr = std::nanf("")}));
  EXPECT_FALSE(check_sgd({.weight_decay = -1}));
  const auto result = check_sgd({.momentum = 0, .nesterov = true});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("nesterov"), std::string::npos);
  EXPECT_FALSE(check_sgd({.nesterov = true, .form = MomentumForm::kTf}));
}

}  // namespace
}  // namespace npu::model
