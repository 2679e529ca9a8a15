// What a resumed job takes from its checkpoint, what it changes, what it refuses, and that it says
// so.
#include "client/train/resume_policy.hpp"

#include <gmock/gmock.h>

namespace npu::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::Job job_of(const std::string& text) {
  auto job = config::load_job_text("name: a\ndevices: 0-1\n" + text, "job.yaml");
  EXPECT_TRUE(job) << job.error().message;
  return job ? *job : config::Job{};
}

/// A job resumes what the job of `before` saved.
ResumePlan plan(const std::string& before, const std::string& now) {
  auto sut = plan_resume(identity_of(job_of(before), {}), job_of(now), "/store/step-8");
  EXPECT_TRUE(sut) << sut.error().message;
  return sut ? *sut : ResumePlan{};
}

std::string refusal(const std::string& before, const std::string& now) {
  const auto sut = plan_resume(identity_of(job_of(before), {}), job_of(now), "/store/step-8");
  EXPECT_FALSE(sut) << now;
  return sut ? "" : sut.error().message;
}

TEST(PlanResume, SameJobHasNothingToSay) {
  const ResumePlan sut = plan("optimizer: {lr: 0.2}\n", "optimizer: {lr: 0.2}\n");
  EXPECT_THAT(sut.adopted, IsEmpty());
  EXPECT_THAT(sut.notes, IsEmpty());
  EXPECT_THAT(sut.warnings, IsEmpty());
}

TEST(PlanResume, NewRateIsIgnoredAndSaid) {
  const ResumePlan sut = plan("optimizer: {lr: 0.2}\n", "optimizer: {lr: 0.05}\n");
  EXPECT_THAT(sut.adopted, ElementsAre(config::Setting{"optimizer.lr", "0.2"}));
  EXPECT_THAT(
      sut.warnings,
      ElementsAre(
          "optimizer.lr 0.2 -> 0.05 (ignored; checkpoint.resume_override: [lr] applies it)"));
}

TEST(PlanResume, NewRateIsTakenWhenListed) {
  const ResumePlan sut = plan("optimizer: {lr: 0.2}\n",
                              "optimizer: {lr: 0.05}\ncheckpoint: {resume_override: [lr]}\n");
  EXPECT_THAT(sut.adopted, IsEmpty());
  EXPECT_THAT(sut.warnings, IsEmpty());
  EXPECT_THAT(sut.notes, ElementsAre("optimizer.lr 0.2 -> 0.05 (checkpoint.resume_override)"));
}

TEST(PlanResume, ScheduleAndEpochsHaveWordsOfTheirOwn) {
  const std::string before = "train: {epochs: 10}\nschedule: {kind: cosine, warmup_epochs: 2}\n";
  const std::string now = "train: {epochs: 20}\nschedule: {kind: linear, warmup_epochs: 3}\n";
  const ResumePlan none = plan(before, now);
  EXPECT_THAT(none.adopted, ElementsAre(config::Setting{"train.epochs", "10"},
                                        config::Setting{"schedule.kind", "cosine"},
                                        config::Setting{"schedule.warmup_epochs", "2"}));
  const ResumePlan some = plan(before, now + "checkpoint: {resume_override: [schedule]}\n");
  EXPECT_THAT(some.adopted, ElementsAre(config::Setting{"train.epochs", "10"}));
  EXPECT_THAT(some.notes, ElementsAre(HasSubstr("schedule.kind cosine -> linear"),
                                      HasSubstr("schedule.warmup_epochs 2 -> 3")));
}

TEST(PlanResume, AdoptedSettingsGiveTheOldSchedule) {
  const std::string before =
      "train: {epochs: 10}\noptimizer: {lr: 0.30000000000000004}\n"
      "schedule: {kind: multistep, milestones: [3, 7], gamma: 0.2}\n";
  config::Job job = job_of("train: {epochs: 99}\nschedule: {kind: constant}\n");
  const auto sut = plan_resume(identity_of(job_of(before), {}), job, "p");
  ASSERT_TRUE(sut);
  const auto travelled = settings_of_text(settings_text(sut->adopted));
  EXPECT_EQ(travelled, sut->adopted);
  ASSERT_TRUE(config::apply_settings(job, travelled, "checkpoint"));
  EXPECT_EQ(job.train.epochs, 10);
  EXPECT_EQ(job.optimizer.lr, 0.30000000000000004);
  EXPECT_EQ(job.schedule.kind, config::ScheduleKind::kMultistep);
  EXPECT_THAT(job.schedule.milestones, ElementsAre(3, 7));
  EXPECT_EQ(job.schedule.gamma, 0.2);
}

TEST(PlanResume, OtherSettingsAreTheJobsAndSaid) {
  const ResumePlan sut = plan("optimizer: {momentum: 0.9}\n", "optimizer: {momentum: 0.8}\n");
  EXPECT_THAT(sut.adopted, IsEmpty());
  EXPECT_THAT(sut.notes, ElementsAre("optimizer.momentum 0.9 -> 0.8 (the job's, from here on)"));
}

TEST(PlanResume, WhatCannotGoOnNamesBothValues) {
  EXPECT_THAT(refusal("model: {arch: resnet8}\n", "model: {arch: resnet20}\n"),
              HasSubstr("'/store/step-8': its model.arch is resnet8, the job's is resnet20"));
  EXPECT_THAT(refusal("model: {num_classes: 10}\n", "model: {num_classes: 100}\n"),
              HasSubstr("its model.num_classes is 10, the job's is 100"));
  EXPECT_THAT(refusal("train: {batch_size: 64}\n", "train: {batch_size: 32}\n"),
              HasSubstr("its train.batch_size is 64, the job's is 32"));
  EXPECT_THAT(refusal("seed: 1\n", "seed: 2\n"), HasSubstr("its seed is 1, the job's is 2"));
  EXPECT_THAT(refusal("profile: pytorch\n", "profile: tf\n"),
              HasSubstr("its profile is pytorch, the job's is tf"));
}

TEST(PlanResume, AnotherNumberOfRanksIsSaid) {
  CheckpointIdentity file = identity_of(job_of("train: {batch_size: 64}\n"), {});
  file.world = 8;
  const auto sut = plan_resume(file, job_of("train: {batch_size: 64}\n"), "p");
  ASSERT_TRUE(sut);
  EXPECT_THAT(sut->warnings, ElementsAre(HasSubstr("trained on 8 ranks, going on with 2")));
  EXPECT_THAT(sut->warnings[0], HasSubstr("32 of them together instead of 8"));
}

TEST(PlanResume, CheckpointWithoutSettingsIsSaid) {
  CheckpointIdentity file = identity_of(job_of(""), {});
  file.settings.clear();
  const auto sut = plan_resume(file, job_of("optimizer: {lr: 0.7}\n"), "p");
  ASSERT_TRUE(sut);
  EXPECT_THAT(sut->adopted, IsEmpty());
  EXPECT_THAT(sut->warnings, ElementsAre(HasSubstr("of an earlier version")));
}

TEST(StartEpoch, MovesARunOnce) {
  const config::Job job = job_of("train: {epochs: 9, start_epoch: 4}\n");
  TrainState state{.next_epoch = 2, .step_in_epoch = 3, .global_step = 19};
  state.sums.loss = 1;
  apply_start_epoch(job, std::nullopt, state);
  EXPECT_EQ(state.next_epoch, 4);
  EXPECT_EQ(state.step_in_epoch, 0);
  EXPECT_EQ(state.sums.loss, 0);
  EXPECT_EQ(state.global_step, 19);

  state = {.next_epoch = 7, .step_in_epoch = 1};
  apply_start_epoch(job, 4, state);  // its own checkpoint
  EXPECT_EQ(state.next_epoch, 7);
  EXPECT_EQ(state.step_in_epoch, 1);
}

TEST(FinishedNote, SaysHowToTrainLonger) {
  const config::Job job = job_of("train: {epochs: 9, target_acc1: 90}\n");
  EXPECT_EQ(finished_note(job, {.next_epoch = 8}), "");
  EXPECT_THAT(finished_note(job, {.next_epoch = 9}),
              HasSubstr("job 'a' is finished: its 9 epochs are trained; to train longer raise "
                        "train.epochs and set checkpoint.resume_override: [epochs]"));
  EXPECT_THAT(finished_note(job, {.next_epoch = 3, .best_acc1 = 90, .best_epoch = 2}),
              HasSubstr("it reached train.target_acc1 90 % in epoch 2 (90.000 %)"));
}

}  // namespace
}  // namespace npu::client
