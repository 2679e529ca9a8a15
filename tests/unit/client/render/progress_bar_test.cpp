#include "client/render/progress_bar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

StepEvent half_way() {
  return {.epoch = 0,
          .step = 50,
          .step_in_epoch = 50,
          .steps_per_epoch = 100,
          .loss = 0.5123,
          .acc1_avg = 81.2,
          .img_s = 1932,
          .batch_avg_s = 0.5};
}

TEST(ProgressBar, ShowsEpochBarStepLossAccuracySpeedAndEta) {
  EXPECT_EQ(progress_line(half_way(), 2, 120),
            "epoch 1/2 [===============>              ] 50/100  loss 0.5123  acc 81.20  "
            "1932 img/s  ETA 1:15");
}

TEST(ProgressBar, EpochLineSaysWhenTheEpochAndTheJobEnd) {
  EXPECT_EQ(epoch_line(half_way(), 2, 75, 80),
            "epoch 1/2 [===============>              ] 50/100  50 %  ETA 0:25  job 1:15");
  for (int columns = 0; columns < 130; ++columns) {
    const auto width = epoch_line(half_way(), 2, 75, columns).size();
    EXPECT_LE(width, static_cast<size_t>(std::max(columns - 1, 1))) << columns;
  }
}

TEST(ProgressBar, FitsEveryWidthWithoutWrapping) {
  for (int columns = 0; columns < 130; ++columns) {
    const auto width = progress_line(half_way(), 2, columns).size();
    EXPECT_LE(width, static_cast<size_t>(std::max(columns - 1, 1))) << columns;
  }
}

TEST(ProgressBar, NarrowTerminalKeepsEpochAndStep) {
  EXPECT_THAT(progress_line(half_way(), 2, 30), HasSubstr("50/100"));
}

TEST(ProgressBar, StepsBeyondTheTotalDoNotOverflowTheBar) {
  StepEvent step = half_way();
  step.step_in_epoch = 500;
  EXPECT_LE(progress_line(step, 2, 80).size(), 79u);
  step.steps_per_epoch = 0;
  EXPECT_LE(progress_line(step, 2, 80).size(), 79u);
}

TEST(ProgressBar, EtaIsReadable) {
  EXPECT_EQ(format_eta(42), "0:42");
  EXPECT_EQ(format_eta(725), "12:05");
  EXPECT_EQ(format_eta(11'250), "3:07:30");
  EXPECT_EQ(format_eta(-1), "-:--");
  EXPECT_EQ(format_eta(std::numeric_limits<double>::quiet_NaN()), "-:--");
}

}  // namespace
}  // namespace npu::client
