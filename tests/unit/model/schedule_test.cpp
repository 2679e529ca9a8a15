#include "model/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace npu::model {
namespace {

TEST(Schedule, StepGolden) {
  const Schedule s{.form = ScheduleForm::kStep};
  for (int epoch = 0; epoch < 90; ++epoch) {
    EXPECT_DOUBLE_EQ(learning_rate(s, epoch), epoch < 30   ? 0.1
                                              : epoch < 60 ? 0.01
                                                           : 0.001)
        << epoch;
  }
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 29), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 30), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 59.99), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 60), 0.001);
  EXPECT_DOUBLE_EQ(learning_rate(s, 89), 0.001);
}

TEST(Schedule, MultistepCountsMilestonesPassed) {
  const Schedule s{.form = ScheduleForm::kMultistep, .milestones = {2, 4}};
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 2), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.001);
}

TEST(Schedule, ConstantStaysConstant) {
  const Schedule s{.form = ScheduleForm::kConstant};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.1);
}

TEST(Schedule, CosineWithLinearWarmupGolden) {
  const Schedule s{
      .form = ScheduleForm::kCosine, .base_lr = 0.5, .epochs = 600, .warmup_epochs = 5};
  EXPECT_NEAR(learning_rate(s, 0), 0.005, 1e-15);
  EXPECT_NEAR(learning_rate(s, 1), 0.104, 1e-15);
  EXPECT_NEAR(learning_rate(s, 4), 0.401, 1e-15);
  EXPECT_NEAR(learning_rate(s, 5), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 6), 0.4999965152243937, 1e-13);
  EXPECT_NEAR(learning_rate(s, 300), 0.25329989645268974, 1e-13);
  EXPECT_NEAR(learning_rate(s, 599), 3.484775606299451e-6, 1e-13);
}

TEST(Schedule, CosineWithNextEpochWarmupGolden) {
  const Schedule s{.form = ScheduleForm::kCosine,
                   .base_lr = 2.048,
                   .epochs = 90,
                   .warmup_epochs = 8,
                   .warmup = WarmupForm::kNextEpoch};
  EXPECT_NEAR(learning_rate(s, 0), 0.256, 1e-12);
  EXPECT_NEAR(learning_rate(s, 7), 2.048, 1e-12);
  EXPECT_NEAR(learning_rate(s, 8), 2.048, 1e-12);
  EXPECT_NEAR(learning_rate(s, 9), 2.0472485694, 1e-10);
  EXPECT_NEAR(learning_rate(s, 50), 0.9847780007, 1e-10);
  EXPECT_NEAR(learning_rate(s, 89), 0.0007514306, 1e-10);
}

TEST(Schedule, LinearFallsFromTheWarmupToItsEnd) {
  const Schedule s{.form = ScheduleForm::kLinear,
                   .base_lr = 0.4,
                   .epochs = 90,
                   .warmup_epochs = 10,
                   .warmup_factor = 0,
                   .min_lr = 0.08};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 0.24);
  EXPECT_DOUBLE_EQ(learning_rate(s, 89), 0.084);
  EXPECT_DOUBLE_EQ(learning_rate(s, 90), 0.08);
  EXPECT_DOUBLE_EQ(learning_rate(s, 200), 0.08);
}

// As torchvision's script has it with --lr-scheduler exponentiallr: its own epochs begin after the
// warm-up.
TEST(Schedule, ExponentialBeginsAfterTheWarmup) {
  const Schedule s{.form = ScheduleForm::kExponential,
                   .base_lr = 0.5,
                   .epochs = 30,
                   .warmup_epochs = 5,
                   .gamma = 0.9};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.005);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 6), 0.45);
  EXPECT_DOUBLE_EQ(learning_rate(s, 7), 0.405);
  EXPECT_DOUBLE_EQ(learning_rate(s, 7.5), 0.5 * std::pow(0.9, 2.5));
}

// ResNet-110 on CIFAR: a tenth of the rate in the first epoch.
TEST(Schedule, ConstantWarmupStaysAtItsRate) {
  const Schedule s{.form = ScheduleForm::kMultistep,
                   .epochs = 200,
                   .warmup_epochs = 1,
                   .warmup = WarmupForm::kConstant,
                   .warmup_factor = 0.1,
                   .milestones = {100, 150}};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 0.9), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 150), 0.001);
}

TEST(TfSchedule, GoldenOfBatch256) {
  const TfSchedule s{.base_lr = 0.1, .steps_per_epoch = 5004};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 12510), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(s, 25020), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 150120), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 150121), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(s, 300241), 0.001);
  EXPECT_DOUBLE_EQ(learning_rate(s, 400321), 0.0001);
}

TEST(TfSchedule, FollowsTheGlobalBatch) {
  constexpr int64_t kImages = 1281167;
  EXPECT_EQ(kImages / 256, 5004);
  const TfSchedule s{.base_lr = 0.1 * 2048 / 256, .steps_per_epoch = kImages / 2048};
  EXPECT_EQ(s.steps_per_epoch, 625);
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5 * 625), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 30 * 625), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 30 * 625 + 1), 0.08);
  EXPECT_DOUBLE_EQ(learning_rate(s, 60 * 625 + 1), 0.008);
  EXPECT_DOUBLE_EQ(learning_rate(s, 80 * 625 + 1), 0.0008);
}

TEST(CheckSchedule, BadFieldsAreNamed) {
  EXPECT_TRUE(check_schedule({}));
  EXPECT_FALSE(check_schedule({.base_lr = -0.1}));
  EXPECT_FALSE(check_schedule({.epochs = 3, .warmup_epochs = 4}));
  EXPECT_FALSE(check_schedule({.form = ScheduleForm::kStep, .step_size = 0}));
  EXPECT_FALSE(check_schedule({.form = ScheduleForm::kMultistep, .milestones = {4, 2}}));
}

}  // namespace
}  // namespace npu::model
