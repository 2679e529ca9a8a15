#include "client/render/live_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

LiveState half_way() {
  LiveState state{.epochs = 2};
  state.step = StepEvent{.step_in_epoch = 50,
                         .steps_per_epoch = 100,
                         .loss = 0.5123,
                         .loss_avg = 0.75,
                         .acc1 = 81.25,
                         .acc1_avg = 70,
                         .acc5 = 99,
                         .acc5_avg = 98,
                         .lr = 0.1,
                         .scale = 1024,
                         .img_s = 1932,
                         .batch_avg_s = 0.5,
                         .data_avg_s = 0.005};
  state.skew = RankSkew{.last = 3, .share = 0.71, .lag_ms = 4.2, .rank_lag_ms = {0.1, 0, 1, 4}};
  return state;
}

TEST(LiveView, ThreeLinesSayWhereHowWellAndHowFast) {
  const auto lines = live_lines(half_way(), 82, 24);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "epoch 1/2 [===============>              ] 50/100  50 %  ETA 0:25  job 1:15");
  EXPECT_EQ(lines[1],
            "loss 0.5123 (0.7500)  acc 81.25 (70.00)  lr 0.1  scale 1024  acc@5 99.00 (98.00)");
  EXPECT_EQ(lines[2], "1932 img/s  data 1.0 %  last rank 3 (71 %, 4.2 ms)  step 500 ms");
}

TEST(LiveView, WideWindowShowsTheLagOfEveryRank) {
  EXPECT_THAT(live_lines(half_way(), 120, 24)[2], HasSubstr("lag 0.1 0.0 1.0 4.0 ms"));
}

TEST(LiveView, NothingIsWiderThanTheWindow) {
  LiveState validating = half_way();
  validating.val = ValStepEvent{.step_in_epoch = 3, .steps_per_epoch = 10};
  for (const LiveState& state : {half_way(), validating}) {
    for (int columns = 0; columns < 150; ++columns) {
      for (const std::string& line : live_lines(state, columns, 24)) {
        EXPECT_LE(line.size(), static_cast<size_t>(std::max(columns - 1, 1))) << columns;
        EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }));
      }
    }
  }
}

TEST(LiveView, LowWindowGetsOneLine) {
  EXPECT_EQ(live_lines(half_way(), 80, 7).size(), 1u);
  EXPECT_THAT(live_lines(half_way(), 80, 7)[0], HasSubstr("loss 0.5123"));
}

TEST(LiveView, NothingIsKnownBeforeTheFirstStep) { EXPECT_TRUE(live_lines({}, 80, 24).empty()); }

TEST(LiveView, JobTakesTheValidationsToo) {
  LiveState state = half_way();
  EXPECT_DOUBLE_EQ(job_eta_s(state), 75);
  state.validation_s = 10;
  EXPECT_DOUBLE_EQ(job_eta_s(state), 95);
  state.step->step_in_epoch = 100;
  state.val = ValStepEvent{.step_in_epoch = 4, .steps_per_epoch = 10, .batch_avg_s = 1};
  EXPECT_DOUBLE_EQ(job_eta_s(state), 50 + 6 + 10);
  state.step.reset();
  EXPECT_LT(job_eta_s(state), 0);
}

TEST(LiveView, JobTakesOnlyTheValidationsThatAreDue) {
  LiveState state = half_way();  // epoch 0 of 2, 75 s of steps left
  state.validation_s = 10;
  state.eval_every = 2;
  EXPECT_DOUBLE_EQ(job_eta_s(state), 75 + 10);
  state.eval_every = 3;  // after the last epoch all the same
  EXPECT_DOUBLE_EQ(job_eta_s(state), 75 + 10);
}

}  // namespace
}  // namespace npu::client
