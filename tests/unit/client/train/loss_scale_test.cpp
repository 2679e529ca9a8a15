// Which scaler a job starts and resumes with, and what the person is told.
#include "client/train/loss_scale.hpp"

#include <gmock/gmock.h>

namespace npu::client {
namespace {

using config::PrecisionConfig;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PrecisionConfig off() { return {}; }
PrecisionConfig fixed(double scale) { return {.amp = true, .loss_scale = scale}; }
PrecisionConfig dynamic() { return {.amp = true, .loss_scale = 0, .growth_interval = 100}; }

/// A dynamic scaler in the middle of a run.
model::GradScalerState used() {
  model::GradScalerState s = model::dynamic_scale(65536, 100);
  s.scale = 8192;
  s.growth_tracker = 42;
  s.skipped_steps = 5;
  s.consecutive_skips = 2;
  return s;
}

TEST(InitialScaler, IsWhatTheJobAsksFor) {
  EXPECT_FALSE(initial_scaler(off()));
  EXPECT_EQ(initial_scaler(fixed(512)), model::static_scale(512));
  EXPECT_EQ(initial_scaler(dynamic()), model::dynamic_scale(65536, 100));
}

TEST(ResumedScaler, DynamicOneIsRestoredExactly) {
  const ResumedScaler got = resumed_scaler({true, used()}, dynamic());
  EXPECT_EQ(got.scaler, used());
  EXPECT_THAT(got.warnings, IsEmpty());
}

TEST(ResumedScaler, IntervalOfTheCheckpointStaysAndIsTold) {
  PrecisionConfig job = dynamic();
  job.growth_interval = 7;
  const ResumedScaler got = resumed_scaler({true, used()}, job);
  EXPECT_EQ(got.scaler, used());
  EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("stays the checkpoint's 100, the job says 7")));
}

TEST(ResumedScaler, StaticScaleIsTheJobs) {
  model::GradScalerState saved = model::static_scale(1024);
  saved.skipped_steps = 3;
  ResumedScaler got = resumed_scaler({true, saved}, fixed(1024));
  EXPECT_EQ(got.scaler, saved);
  EXPECT_THAT(got.warnings, IsEmpty());

  got = resumed_scaler({true, saved}, fixed(128));
  ASSERT_TRUE(got.scaler);
  EXPECT_EQ(got.scaler->scale, 128);
  EXPECT_EQ(got.scaler->skipped_steps, 3);
  EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("was 1024, going on with loss scale 128")));
}

TEST(ResumedScaler, ChangeOfKindStartsAnewButKeepsTheCounts) {
  const ResumedScaler got = resumed_scaler({true, used()}, fixed(1024));
  ASSERT_TRUE(got.scaler);
  EXPECT_FALSE(got.scaler->dynamic);
  EXPECT_EQ(got.scaler->scale, 1024);
  EXPECT_EQ(got.scaler->skipped_steps, 5);
  EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("dynamic loss scale was 8192")));
}

TEST(ResumedScaler, MissingStateWithAmpOnIsToldAndStartsAnew) {
  const ResumedScaler got = resumed_scaler({true, std::nullopt}, dynamic());
  EXPECT_EQ(got.scaler, initial_scaler(dynamic()));
  EXPECT_THAT(
      got.warnings,
      ElementsAre(HasSubstr("no loss scaler; starting with dynamic loss scale from 65536")));
}

TEST(ResumedScaler, AmpThatDiffersIsToldAndTheScalerIsKept) {
  ResumedScaler got = resumed_scaler({true, used()}, off());
  EXPECT_EQ(got.scaler, used());
  EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("precision.amp=true, the job says false")));

  got = resumed_scaler({false, used()}, dynamic());
  EXPECT_EQ(got.scaler, used());
  EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("precision.amp=false, the job says true")));
}

TEST(PrecisionText, SaysTheEffectiveScale) {
  EXPECT_EQ(precision_text(off()), "fp32");
  EXPECT_EQ(precision_text(fixed(1024)), "fp16, loss scale 1024");
  EXPECT_EQ(precision_text(dynamic()), "fp16, dynamic loss scale from 65536");
}

}  // namespace
}  // namespace npu::client
