#include "client/render/text_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace npu::client {
namespace {

using testing::HasSubstr;

TEST(TextFormat, StepIsTheLineOfThePytorchExample) {
  const StepEvent step{.epoch = 3,
                       .step = 301,
                       .step_in_epoch = 10,
                       .steps_per_epoch = 97,
                       .loss = 0.94127,
                       .loss_avg = 0.9624,
                       .acc1 = 67.19,
                       .acc1_avg = 66.02,
                       .acc5 = 97.27,
                       .acc5_avg = 97.01,
                       .lr = 0.1245,
                       .scale = 65536,
                       .img_s = 1018,
                       .batch_s = 0.498,
                       .batch_avg_s = 0.503,
                       .data_s = 0.002,
                       .data_avg_s = 0.006};
  EXPECT_EQ(format_step(step),
            "Epoch: [3][10/97]\tTime  0.498 ( 0.503)\tData  0.002 ( 0.006)\t"
            "Loss 9.4127e-01 (9.6240e-01)\tAcc@1  67.19 ( 66.02)\tAcc@5  97.27 ( 97.01)\t"
            "Lr 0.1245\tScale 65536\tImg/s 1018");
}

TEST(TextFormat, CounterIsAlignedToTheWidthOfTheTotal) {
  StepEvent step{.step_in_epoch = 1, .steps_per_epoch = 235};
  EXPECT_THAT(format_step(step), HasSubstr("Epoch: [0][  1/235]\t"));
}

TEST(TextFormat, ScaleIsShownOnlyWhenOneIsInUse) {
  EXPECT_EQ(format_step(StepEvent{}).find("Scale"), std::string::npos);
}

TEST(TextFormat, ValidationLineHasNoDataTime) {
  const ValStepEvent val{.step_in_epoch = 1,
                         .steps_per_epoch = 20,
                         .loss = 0.89021,
                         .loss_avg = 0.89021,
                         .acc1 = 68.75,
                         .acc1_avg = 68.75,
                         .acc5 = 97.66,
                         .acc5_avg = 97.66,
                         .batch_s = 0.201,
                         .batch_avg_s = 0.201};
  EXPECT_EQ(format_val_step(val),
            "Test: [ 1/20]\tTime  0.201 ( 0.201)\tLoss 8.9021e-01 (8.9021e-01)\t"
            "Acc@1  68.75 ( 68.75)\tAcc@5  97.66 ( 97.66)");
}

TEST(TextFormat, EpochSummaryIsSpaceAsteriskThreeSpaces) {
  const EpochEvent epoch{.epoch = 3,
                         .val_acc1 = 68.94,
                         .val_acc5 = 97.31,
                         .val_samples = 10'000,
                         .img_s = 1000,
                         .seconds = 49.1,
                         .best = true};
  const std::string text = format_epoch(epoch);
  EXPECT_EQ(text.substr(0, text.find('\n')), " *   Acc@1 68.940 Acc@5 97.310");
  EXPECT_THAT(text, testing::EndsWith("best"));
}

TEST(TextFormat, EpochSummaryHasALineForAveragedWeights) {
  const std::string text = format_epoch(
      {.val_acc1 = 68.94, .val_samples = 1, .val_ema_acc1 = 70.25, .val_ema_acc5 = 98});
  EXPECT_THAT(text, HasSubstr("\n *   EMA Acc@1 70.250 Acc@5 98.000\n"));
}

TEST(TextFormat, EpochWithoutValidationHasNoAccuracy) {
  EXPECT_EQ(format_epoch(EpochEvent{}).find(" * "), std::string::npos);
}

TEST(TextFormat, StartSaysWhetherTheRunIsDistributed) {
  EXPECT_THAT(format_start({.world = 1, .devices = {2}}), HasSubstr("single: device 2"));
  EXPECT_THAT(format_start({.world = 3, .devices = {0, 1, 5}}),
              HasSubstr("distributed: 3 ranks on devices 0-1,5"));
}

TEST(TextFormat, StartSaysWhereItResumes) {
  EXPECT_THAT(format_start({.resumed_step = 292, .resumed_from = "step-291"}),
              HasSubstr("resumed from step-291, next step 292"));
}

TEST(TextFormat, StartSaysWhichWeightsItBeginsWith) {
  EXPECT_THAT(format_start({.pretrained = "/w/resnet50.safetensors"}),
              HasSubstr("\nusing pre-trained model '/w/resnet50.safetensors'"));
  EXPECT_THAT(format_start({}), testing::Not(HasSubstr("pre-trained")));
}

TEST(TextFormat, DoneNamesAccuracySpeedSkipsCheckpointAndDigest) {
  const std::string text = format_done({.epochs = 2,
                                        .steps = 470,
                                        .skipped_steps = 3,
                                        .best_acc1 = 86.1,
                                        .acc1 = 85.5,
                                        .best_epoch = 0,
                                        .img_s = 1900,
                                        .seconds = 63,
                                        .checkpoint = "/s/step-470",
                                        .weights_digest = "ab12"});
  for (const char* part : {"470 steps (3 skipped)", "1900 images/s", "85.500 %", "best 86.100 %",
                           "/s/step-470", "ab12"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(TextFormat, DoneSaysWhetherTheCheckpointWasVerified) {
  DoneEvent done{.checkpoint = "/s/step-470"};
  EXPECT_THAT(format_done(done), testing::Not(testing::ContainsRegex("[Vv][Ee][Rr][Ii][Ff]")));
  done.verified = true;
  EXPECT_THAT(format_done(done), HasSubstr("/s/step-470   verified\n"));
  done.verified = false;
  EXPECT_THAT(format_done(done), HasSubstr("/s/step-470   NOT VERIFIED\n"));
}

TEST(TextFormat, DoneWithoutAnEpochClaimsNoAccuracy) {
  EXPECT_THAT(format_done({.steps = 60}), HasSubstr("accuracy    not measured"));
}

TEST(TextFormat, EvaluationIsMainsLine) {
  EXPECT_EQ(format_eval({.acc1 = 68.94, .acc5 = 97.31}), " *   Acc@1 68.940 Acc@5 97.310");
}

TEST(TextFormat, ChangesAgainstTheCheckpointAreSaid) {
  const std::string text = format_start({.notes = {"optimizer.lr 0.1 -> 0.2"}, .warnings = {"w"}});
  EXPECT_THAT(text, HasSubstr("\noptimizer.lr 0.1 -> 0.2\nwarning: w"));
}

TEST(TextFormat, DoneBeginsWithWhyItEndedEarly) {
  EXPECT_EQ(format_done({.note = "stopped by a signal after step 7"}).find("stopped"), 0u);
  EXPECT_THAT(format_done({.best_checkpoint = "/s/step-4"}), HasSubstr("\nbest        /s/step-4"));
}

TEST(TextFormat, IdsAreFoldedIntoRanges) {
  EXPECT_EQ(format_ids({0, 1, 2, 3, 5, 7}), "0-3,5,7");
  EXPECT_EQ(format_ids({}), "");
}

}  // namespace
}  // namespace npu::client
