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
