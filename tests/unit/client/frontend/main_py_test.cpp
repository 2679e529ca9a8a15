// Flag sets of main.py and the job each stands for.
#include <gmock/gmock.h>

#include "tests/unit/client/frontend/given.hpp"

namespace npu::frontend {
namespace {

using config::DataFormat;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

config::Job translated(Flags flags) { return job_of(translate_main_py(given(flags), photos())); }

TEST(MainPy, NothingGivenIsMainPysDefaults) {
  const config::Job job = translated({});
  EXPECT_EQ(job.name, "resnet18-photos");
  EXPECT_EQ(job.devices, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(job.profile, config::Profile::kPytorch);
  EXPECT_EQ(job.model.arch, "resnet18");
  EXPECT_EQ(job.model.num_classes, 10);
  EXPECT_EQ(job.data.format, DataFormat::kImageFolder);
  EXPECT_EQ(job.data.path, "/data/photos");
  EXPECT_EQ(job.data.workers, 4);
  EXPECT_EQ(job.data.augment, config::Augment::kImagenet);
  EXPECT_EQ(job.train.epochs, 90);
  EXPECT_EQ(job.train.batch_size, 256);
  EXPECT_EQ(job.train.print_freq, 10);
  EXPECT_FALSE(job.train.start_epoch);
  EXPECT_FALSE(job.train.evaluate);
  EXPECT_EQ(job.optimizer.lr, 0.1);
  EXPECT_EQ(job.optimizer.momentum, 0.9);
  EXPECT_EQ(job.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(job.schedule.kind, config::ScheduleKind::kStep);
  EXPECT_EQ(job.schedule.step_size, 30);
  EXPECT_EQ(job.schedule.gamma, 0.1);
  EXPECT_FALSE(job.precision.amp);
  EXPECT_EQ(job.precision.loss_scale, 1024);
  EXPECT_EQ(job.checkpoint.resume, config::ResumeKind::kNever);
}

TEST(MainPy, TheLineOfTheDocumentIsItsJob) {
  const config::Job job = translated({{"workers", "160"},
                                      {"lr", "0.8"},
                                      {"arch", "resnet50"},
                                      {"dist-url", "tcp://127.0.0.1:1234"},
                                      {"dist-backend", "hccl"},
                                      {"multiprocessing-distributed", "true"},
                                      {"device_list", "0,1,2,3,4,5,6,7"},
                                      {"world-size", "1"},
                                      {"batch-size", "2048"},
                                      {"epochs", "90"},
                                      {"rank", "0"},
                                      {"amp", "true"}});
  EXPECT_EQ(job.name, "resnet50-photos");
  EXPECT_EQ(job.data.workers, 160);
  EXPECT_EQ(job.optimizer.lr, 0.8);
  EXPECT_EQ(job.world(), 8);
  EXPECT_EQ(job.rank_batch(), 256);
  EXPECT_TRUE(job.precision.amp);
}

TEST(MainPy, EveryOtherFlagHasItsKey) {
  const config::Job job = translated({{"start-epoch", "3"},
                                      {"evaluate", "true"},
                                      {"momentum", ".875"},
                                      {"weight-decay", "5e-4"},
                                      {"print-freq", "7"},
                                      {"seed", "42"},
                                      {"loss_scale", "512"},
                                      {"amp", "true"},
                                      {"addr", "127.0.0.1"},
                                      {"device", "npu"}});
  EXPECT_EQ(job.train.start_epoch, 3);
  EXPECT_TRUE(job.train.evaluate);
  EXPECT_EQ(job.optimizer.momentum, 0.875);
  EXPECT_EQ(job.optimizer.weight_decay, 5e-4);
  EXPECT_EQ(job.train.print_freq, 7);
  EXPECT_EQ(job.seed, 42u);
  EXPECT_EQ(job.precision.loss_scale, 512);
}

TEST(MainPy, DummyIsAsLargeAsImageNetAndNeedsNoFolder) {
  const config::Job job = job_of(translate_main_py(
      given({{"dummy", "true"}}), {.data = {}, .all_devices = "0-1", .resume_folder = {}}));
  EXPECT_EQ(job.name, "resnet18-dummy");
  EXPECT_EQ(job.data.format, DataFormat::kSynthetic);
  EXPECT_EQ(job.data.train_samples, 1'281'167);
  EXPECT_EQ(job.data.val_samples, 50'000);
  EXPECT_EQ(job.data.image_size, 224);
  EXPECT_EQ(job.model.num_classes, 1000);
  EXPECT_EQ(job.world(), 2);
}

TEST(MainPy, LossScaleHasOneMeaning) {
  EXPECT_EQ(translated({{"loss_scale", "-1"}, {"amp", "true"}}).precision.loss_scale, 0);
  EXPECT_EQ(translated({{"loss_scale", "dynamic"}, {"amp", "true"}}).precision.loss_scale, 0);
  EXPECT_EQ(translated({{"loss_scale", "1024."}, {"amp", "true"}}).precision.loss_scale, 1024);
}

TEST(MainPy, DevicesAreSortedAndBlanksTolerated) {
  EXPECT_THAT(translated({{"device_list", "6, 4,5 ,7"}}).devices, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(translated({{"gpu", "3"}}).devices, ElementsAre(3));
}

TEST(MainPy, ResumeAndPretrainedArePathsOfTheSurroundings) {
  Surroundings around = photos();
  around.resume_folder = "/runs/a b/step-4";
  around.pretrained_file = "/w/r50.safetensors";
  const config::Job job = job_of(
      translate_main_py(given({{"resume", "step-4"}, {"pretrained", "r50.safetensors"}}), around));
  EXPECT_EQ(job.checkpoint.resume, config::ResumeKind::kPath);
  EXPECT_EQ(job.checkpoint.resume_path, "/runs/a b/step-4");
  EXPECT_EQ(job.model.pretrained, "/w/r50.safetensors");
  EXPECT_EQ(translated({{"resume", "auto"}}).checkpoint.resume, config::ResumeKind::kAuto);
}

TEST(MainPy, AnEvaluationTakesTheNewestCheckpointUnlessOneIsNamed) {
  EXPECT_EQ(translated({{"evaluate", "true"}}).checkpoint.resume, config::ResumeKind::kAuto);
}

TEST(MainPy, BothSpellingsOfTheBackEndMayAgree) {
  EXPECT_EQ(translated({{"dist-backend", "hccl"}, {"dist_backend", "hccl"}}).world(), 8);
}

TEST(MainPy, WhatHasNoEffectIsSaid) {
  const auto made =
      translate_main_py(given({{"dist-url", "tcp://127.0.0.1:1"}, {"loss_scale", "64"}}), photos());
  ASSERT_TRUE(made);
  EXPECT_THAT(made->remarks, Contains(HasSubstr("--dist-url tcp://127.0.0.1:1 has no effect")));
  EXPECT_THAT(made->remarks, Contains("--loss_scale has no effect without --amp"));
}

class MainPyRefuses : public testing::TestWithParam<size_t> {};

struct Case {
  std::vector<std::pair<const char*, const char*>> flags;
  const char* words;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{{"dist-backend", "hccl"}, {"dist_backend", "nccl"}}, "give one, or the same twice"},
      {{{"dist-backend", "nccl"}}, "called hccl; there is no other back end"},
      {{{"device", "gpu"}}, "nothing here runs on a GPU"},
      {{{"device", "tpu"}}, "the one device kind is npu"},
      {{{"addr", "10.0.0.1"}}, "all ranks are on this host"},
      {{{"dist-url", "tcp://224.66.41.62:23456"}}, "all ranks are on this host"},
      {{{"dist-url", "tcp://127.0.0.1:**"}}, "'**' stands for a port of your choice"},
      {{{"dist-url", "tcp://127.0.0.1:70000"}}, "no port; expected 0 to 65535"},
      {{{"dist-url", "file:///x"}}, "expected tcp://127.0.0.1:PORT or env://"},
      {{{"world-size", "2"}}, "it counts nodes, and there is one"},
      {{{"rank", "1"}}, "it numbers nodes, and there is one"},
      {{{"no-accel", "true"}}, "training without devices does not exist here"},
      {{{"gpu", "0"}, {"device_list", "1"}}, "give one of them"},
      {{{"epochs", "many"}}, "--epochs: 'many' is not a whole number"},
      {{{"epochs", "1.5"}}, "--epochs: '1.5' is not a whole number"},
      {{{"lr", "0.1}, x: {"}}, "is not a finite number"},
      {{{"lr", "nan"}}, "--lr: 'nan' is not a finite number"},
      {{{"loss_scale", "big"}}, "neither a finite number nor 'dynamic'"},
      {{{"loss_scale", "inf"}}, "neither a finite number nor 'dynamic'"},
      {{{"train_epochs", "1"}}, "add --profile tf"},
  };
  return all;
}

TEST_P(MainPyRefuses, WithOneSentence) {
  const Case& c = cases()[GetParam()];
  Given flags;
  for (const auto& [name, value] : c.flags) flags.set(name, value);
  const auto made = translate_main_py(flags, photos());
  ASSERT_FALSE(made) << made->yaml;
  EXPECT_EQ(made.error().exit, Exit::kUsage);
  EXPECT_THAT(made.error().message, HasSubstr(c.words));
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Flags, MainPyRefuses, testing::Range<size_t>(0, cases().size()));

/// What the loader refuses shows the line that the flag became.
TEST(MainPy, TheLoaderChecksRangesAndDevices) {
  const auto refusal = [](Flags flags) {
    const auto made = translate_main_py(given(flags), photos());
    EXPECT_TRUE(made) << made.error().message;
    const auto job = config::load_job_text(made->yaml, "launch flags");
    EXPECT_FALSE(job);
    return job ? std::string() : job.error().message;
  };
  EXPECT_THAT(refusal({{"batch-size", "100"}}), HasSubstr("use 96 or 104"));
  EXPECT_THAT(refusal({{"batch-size", "100"}}), HasSubstr("# --batch-size"));
  EXPECT_THAT(refusal({{"device_list", "0,0,1"}}), HasSubstr("device 0 is given twice"));
  EXPECT_THAT(refusal({{"device_list", "0,1,"}}), HasSubstr("an empty item"));
  EXPECT_THAT(refusal({{"device_list", "0,8"}}), HasSubstr("'8' is outside 0..7"));
  EXPECT_THAT(refusal({{"device_list", "0,a"}}), HasSubstr("'a' is not a device id"));
  EXPECT_THAT(refusal({{"loss_scale", "0"}, {"amp", "true"}}), HasSubstr("out of range"));
  EXPECT_THAT(refusal({{"loss_scale", "-2"}, {"amp", "true"}}), HasSubstr("out of range"));
  EXPECT_THAT(refusal({{"arch", "resnet51"}}), HasSubstr("resnet50"));
  EXPECT_THAT(refusal({{"epochs", "0"}}), HasSubstr("train.epochs: '0' is out of range"));
}

}  // namespace
}  // namespace npu::frontend
