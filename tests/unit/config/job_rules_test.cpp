#include <gmock/gmock.h>

#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(BatchRule, ProposesTheWorldWhenTheBatchIsSmaller) {
  const std::string text = errors_of("name: a\ndevices: 0-3\ntrain: {batch_size: 3}");
  EXPECT_THAT(text, HasSubstr("3 images over 4 ranks leave a remainder of 3"));
  EXPECT_THAT(text, HasSubstr("use 4 (4 devices are set at job.yaml:2:10)"));
}

TEST(BatchRule, NamesTheDefaultDevicesWhenNoneAreGiven) {
  EXPECT_THAT(errors_of("name: a\ntrain: {batch_size: 12}"),
              HasSubstr("use 8 or 16 (8 devices by default)"));
}

TEST(BatchRule, StaysSilentWhenTheDevicesWereRefused) {
  EXPECT_THAT(errors_of("name: a\ndevices: [9]\ntrain: {batch_size: 12}"),
              HasSubstr("1 error in job.yaml"));
}

TEST(NesterovRule, NeedsMomentum) {
  EXPECT_THAT(
      errors_of("name: a\noptimizer: {nesterov: true, momentum: 0}"),
      HasSubstr("job.yaml:2:23: error: optimizer.nesterov: needs optimizer.momentum above 0"));
  EXPECT_EQ(errors_of("name: a\noptimizer: {nesterov: true, momentum: 0.9}"), "");
}

TEST(ScheduleRules, MilestonesAscendAndExist) {
  EXPECT_THAT(errors_of("name: a\nschedule: {kind: multistep, milestones: [3, 3]}"),
              HasSubstr("3 follows 3; expected ascending epochs"));
  EXPECT_THAT(errors_of("name: a\nschedule: {kind: multistep}"),
              HasSubstr("schedule.milestones: missing"));
}

TEST(ScheduleRules, WarmupLeavesEpochsToTrain) {
  EXPECT_THAT(errors_of("name: a\ntrain: {epochs: 5}\nschedule: {warmup_epochs: 5}"),
              HasSubstr("schedule.warmup_epochs: 5 leaves nothing of train.epochs 5"));
}

TEST(ScheduleRules, TensorFlowsRunMayEndWithinItsWarmup) {
  const std::string head = "name: a\nprofile: tf\ntrain: {epochs: 1}\nschedule: ";
  EXPECT_EQ(errors_of(head + "{kind: multistep, milestones: [30], warmup_epochs: 5}"), "");
  EXPECT_THAT(errors_of(head + "{kind: cosine, warmup_epochs: 5}"), HasSubstr("leaves nothing"));
}

TEST(ScheduleRules, EndRateBelongsToAScheduleThatFallsToIt) {
  EXPECT_EQ(errors_of("name: a\nschedule: {kind: linear, end_lr: 0.001}"), "");
  EXPECT_EQ(errors_of("name: a\nschedule: {kind: cosine, end_lr: 0.1}"), "");
  EXPECT_THAT(errors_of("name: a\nschedule: {kind: step, end_lr: 0.001}"),
              HasSubstr("schedule.end_lr: only kind cosine and linear end at a rate"));
  EXPECT_THAT(errors_of("name: a\nschedule: {kind: cosine, end_lr: 0.2}"),
              HasSubstr("schedule.end_lr: 0.2 is above optimizer.lr 0.1"));
}

TEST(ControlRules, StartEpochLeavesSomethingToTrain) {
  EXPECT_EQ(errors_of("name: a\ntrain: {epochs: 5, start_epoch: 4}"), "");
  EXPECT_THAT(errors_of("name: a\ntrain: {epochs: 5, start_epoch: 5}"),
              HasSubstr("train.start_epoch: 5 leaves nothing of train.epochs 5"));
}

TEST(ControlRules, EvaluationNeedsWeights) {
  EXPECT_EQ(errors_of("name: a\ntrain: {evaluate: true}"), "");
  EXPECT_EQ(errors_of("name: a\ntrain: {evaluate: true}\nmodel: {pretrained: /w}\n"
                      "checkpoint: {resume: never}"),
            "");
  EXPECT_THAT(errors_of("name: a\ntrain: {evaluate: true}\ncheckpoint: {resume: never}"),
              HasSubstr("train.evaluate: there are no weights to evaluate"));
}

TEST(ControlRules, ResumeTakesThreeWordsOrAPath) {
  for (const char* good : {"auto", "best", "never", "./step-3"}) {
    EXPECT_EQ(errors_of(std::string("name: a\ncheckpoint: {resume: ") + good + "}"), "") << good;
  }
  EXPECT_THAT(errors_of("name: a\ncheckpoint: {resume: bets}"),
              HasSubstr("one of: auto, best, never, or a path with a '/' in it"));
  const auto sut = load_job_text("name: a\ncheckpoint: {resume: best}", "job.yaml");
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->checkpoint.resume, ResumeKind::kBest);
}

TEST(Settings, AreAppliedAllOrNothing) {
  auto job = load_job_text("name: a\ntrain: {epochs: 5}", "job.yaml");
  ASSERT_TRUE(job);
  Job sut = *job;
  const std::vector<Setting> bad = {{"optimizer.lr", "0.5"}, {"schedule.kind", "sawtooth"}};
  const auto refused = apply_settings(sut, bad, "checkpoint");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("sawtooth"));
  EXPECT_EQ(sut.optimizer.lr, 0.1);
  const auto clash =
      apply_settings(sut, std::vector<Setting>{{"schedule.warmup_epochs", "6"}}, "c");
  ASSERT_FALSE(clash);
  EXPECT_THAT(clash.error().message, HasSubstr("leaves nothing of train.epochs 5"));
  EXPECT_TRUE(apply_settings(sut, settings(*job), "itself"));
  EXPECT_EQ(print_job(sut), print_job(*job));
}

TEST(TfProfileRules, WarmUpLinearly) {
  EXPECT_THAT(errors_of("name: a\nprofile: tf\nschedule: {warmup_form: next}"),
              HasSubstr("schedule.warmup_form: profile tf warms up linearly from 0"));
}

TEST(TfProfileRules, RefuseNesterov) {
  EXPECT_EQ(errors_of("name: a\nprofile: tf"), "");
  EXPECT_THAT(errors_of("name: a\nprofile: tf\noptimizer: {nesterov: true}"),
              HasSubstr("optimizer.nesterov: profile tf has no Nesterov step"));
}

TEST(DataRules, FolderIsNeededExceptForSynthetic) {
  EXPECT_THAT(errors_of("name: a\ndata: {format: idx}"), HasSubstr("data.path: missing"));
  EXPECT_EQ(errors_of("name: a\ndata: {format: idx, path: /nonexistent}"), "");
}

TEST(DataRules, SyntheticEpochNeedsOneBatch) {
  EXPECT_THAT(errors_of("name: a\ndata: {train_samples: 100}\ntrain: {batch_size: 128}"),
              HasSubstr("100 images do not fill one batch of 128"));
}

}  // namespace
}  // namespace npu::config
