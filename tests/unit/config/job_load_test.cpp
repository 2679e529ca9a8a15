#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/config/support.hpp"

namespace npu::config {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LoadJob, ReadsEveryShippedJob) {
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NPU_JOBS_DIR)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto sut = load_job(entry.path().string());
    ASSERT_TRUE(sut) << sut.error().message;
    EXPECT_EQ(sut->name, entry.path().stem().string());
    ++jobs;
  }
  EXPECT_GE(jobs, 2);
}

TEST(LoadJob, ReadsTheFashionMnistJobAsDesigned) {
  const auto sut = load_job(std::string(NPU_JOBS_DIR) + "/resnet20-fashion-mnist.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->world(), 8);
  EXPECT_EQ(sut->rank_batch(), 16);
  EXPECT_EQ(sut->model.arch, "resnet20");
  EXPECT_EQ(sut->data.format, DataFormat::kIdx);
  EXPECT_EQ(sut->data.augment, Augment::kCifar);
  EXPECT_EQ(sut->schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(sut->collectives.bucket_bytes, 4u << 20);
  EXPECT_EQ(sut->collectives.timeout.count(), 60'000);
  EXPECT_EQ(sut->checkpoint.resume, ResumeKind::kAuto);
}

TEST(LoadJob, MissingFileExits66AndDirectoryIsRefused) {
  const auto missing = load_job("/nonexistent/job.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exit, Exit::kNoInput);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/job.yaml"));
  const auto directory = load_job("/");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().exit, Exit::kNoInput);
}

TEST(LoadJob, MinimalJobKeepsDefaults) {
  const auto sut = load_job_text("name: a", "job.yaml");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->train.epochs, 90);
  EXPECT_EQ(sut->world(), 8);
  EXPECT_FALSE(sut->train.stop_after_steps.has_value());
}

TEST(LoadJob, EmptySectionMeansDefaults) {
  EXPECT_EQ(errors_of("name: a\ntrain:\nmodel: {}\n"), "");
}

TEST(LoadJob, EmptyFileAsksForTheName) {
  EXPECT_THAT(errors_of(""), HasSubstr("name: missing"));
  EXPECT_THAT(errors_of("# nothing\n"), HasSubstr("1 error in job.yaml; nothing was started"));
}

TEST(LoadJob, ReportsAllFindingsInOnePassInFileOrder) {
  const std::string text = errors_of(
      "name: a\n"
      "profile: pytroch\n"
      "train:\n"
      "  batch_size: 100\n"
      "optimizer:\n"
      "  lr: 0.1\n"
      "  momentun: 0.9\n"
      "  lr: 0.2\n"
      "devices: 0-7\n");
  EXPECT_EQ(
      text,
      "job.yaml:2:10: error: profile: unknown value 'pytroch'; one of: pytorch, tf\n"
      "  2 | profile: pytroch\n"
      "    |          ^~~~~~~ did you mean 'pytorch'?\n"
      "job.yaml:4:15: error: train.batch_size: 100 images over 8 ranks leave a remainder of 4\n"
      "  4 |   batch_size: 100\n"
      "    |               ^~~ use 96 or 104 (8 devices are set at job.yaml:9:10)\n"
      "job.yaml:7:3: error: optimizer: unknown key 'momentun'\n"
      "  7 |   momentun: 0.9\n"
      "    |   ^~~~~~~~ did you mean 'momentum'?\n"
      "job.yaml:8:3: error: optimizer: duplicate key 'lr', first given at job.yaml:6:3\n"
      "  8 |   lr: 0.2\n"
      "    |   ^~\n"
      "4 errors in job.yaml; nothing was started. Keys and defaults: npu config schema");
}

TEST(LoadJob, UnknownKeySuggestsItsSection) {
  EXPECT_THAT(errors_of("name: a\nepochs: 3\n"), HasSubstr("did you mean 'train.epochs'?"));
  EXPECT_THAT(errors_of("name: a\ntrian: {epochs: 3}\n"), HasSubstr("did you mean 'train'?"));
}

TEST(LoadJob, DottedKeyInAFileIsRefused) {
  EXPECT_THAT(errors_of("name: a\ntrain.epochs: 3\n"), HasSubstr("dotted keys are for --set"));
}

struct BadValue {
  const char* line;
  const char* expected;
};

class BadValues : public testing::TestWithParam<BadValue> {};

TEST_P(BadValues, AreNamedWithWhatWasExpected) {
  const std::string text = errors_of(std::string("name: a\n") + GetParam().line + "\n");
  EXPECT_THAT(text, HasSubstr(GetParam().expected));
  EXPECT_THAT(text, HasSubstr("job.yaml:2:"));
  EXPECT_THAT(text, HasSubstr("1 error in job.yaml; nothing was started"));
}

INSTANTIATE_TEST_SUITE_P(
    Types, BadValues,
    testing::Values(
        BadValue{"train: {epochs: 2.5}", "train.epochs: expected an integer 1..100000, got '2.5'"},
        BadValue{"train: {epochs: \"2\"}", "got the quoted text '2'"},
        BadValue{"train: {epochs: [2]}", "got a list"},
        BadValue{"train: {epochs: }", "got nothing"},
        BadValue{"train: {epochs: 010}", "leading zero"},
        BadValue{"train: {epochs: 0x10}", "expected an integer"},
        BadValue{"train: {epochs: 0}", "'0' is out of range; expected 1..100000"},
        BadValue{"train: {epochs: -1}", "'-1' is out of range"},
        BadValue{"train: {epochs: 99999999999999999999}", "is out of range"},
        BadValue{"train: {stop_after_steps: 0}", "train.stop_after_steps: '0' is out of range"},
        BadValue{"train: 5", "train: expected keys below it"},
        BadValue{"seed: -1", "seed: expected an integer 0..2^64-1, got '-1'"},
        BadValue{"seed: 18446744073709551616", "does not fit in 64 bits"},
        BadValue{"optimizer: {lr: .nan}", "'.nan' is not finite"},
        BadValue{"optimizer: {lr: nan}", "'nan' is not finite"},
        BadValue{"optimizer: {lr: -.inf}", "'-.inf' is not finite"},
        BadValue{"optimizer: {lr: 1e999}", "is out of range"},
        BadValue{"optimizer: {lr: fast}", "expected a number 0..1000, got 'fast'"},
        BadValue{"optimizer: {nesterov: yes}", "did you mean 'true'?"},
        BadValue{"optimizer: {nesterov: 'true'}", "expected true or false, got the quoted text"},
        BadValue{"model: {arch: resnet51}", "model.arch: unknown value 'resnet51'; one of: "},
        BadValue{"precision: {loss_scale: 0}", "'0' is out of range; expected more than 0"},
        BadValue{"precision: {loss_scale: -2}", "'-2' is out of range"},
        BadValue{"precision: {loss_scale: .inf}", "loss_scale: "},
        BadValue{"precision: {loss_scale: dynamik}", "did you mean 'dynamic'?"},
        BadValue{"precision: {dtype: fp8}", "one of: fp16, bf16"},
        BadValue{"collectives: {bucket_bytes: 4 potatoes}", "unknown unit 'potatoes'"},
        BadValue{"collectives: {bucket_bytes: 12}", "expected 1KiB..1GiB"},
        BadValue{"collectives: {timeout: -1s}", "'-1s' is not a duration"},
        BadValue{"collectives: {timeout: 1ms}", "expected 0 (never) or 100ms..86400s"},
        BadValue{"checkpoint: {memory_every_steps: -1}",
                 "checkpoint.memory_every_steps: '-1' is out of range"},
        BadValue{"restart: {max_restarts: -1}", "restart.max_restarts: '-1' is out of range"},
        BadValue{"restart: {backoff: 31s}", "100ms..30s"},
        BadValue{"checkpoint: {resume: atuo}", "did you mean 'auto'?"},
        BadValue{"checkpoint: {keep: 0}", "checkpoint.keep: '0' is out of range"},
        BadValue{"schedule: {milestones: [3, x]}", "schedule.milestones: expected a list"},
        BadValue{"schedule: {gamma: 0}", "expected more than 0"}));

class BadNames : public testing::TestWithParam<const char*> {};

TEST_P(BadNames, AreRefusedBecauseTheyBecomeDirectories) {
  const std::string text = errors_of(std::string("name: ") + GetParam() + "\n");
  EXPECT_THAT(text, HasSubstr("cannot name a run"));
}

INSTANTIATE_TEST_SUITE_P(
    Names, BadNames,
    testing::Values("..", ".", ".hidden", "'-x'", "Upper", "a/b", "'a b'", "''",
                    "a23456789012345678901234567890123456789012345678901234567890"
                    "12345"));

TEST(LoadJob, LossScaleAndResumeSpellingsAgree) {
  EXPECT_EQ(load_job_text("name: a\nprecision: {loss_scale: -1}", "j")->precision.loss_scale, 0);
  EXPECT_EQ(load_job_text("name: a\nprecision: {loss_scale: dynamic}", "j")->precision.loss_scale,
            0);
  EXPECT_EQ(load_job_text("name: a\nprecision: {loss_scale: 128}", "j")->precision.loss_scale, 128);
  const auto sut = load_job_text("name: a\ncheckpoint: {resume: ./step-4}", "j");
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->checkpoint.resume, ResumeKind::kPath);
  EXPECT_EQ(sut->checkpoint.resume_path, "./step-4");
}

TEST(LoadJob, TimeoutZeroMeansNever) {
  EXPECT_EQ(load_job_text("name: a\ncollectives: {timeout: 0}", "j")->collectives.timeout.count(),
            0);
}

TEST(LoadJob, ControlBytesDoNotReachTheTerminal) {
  EXPECT_THAT(errors_of("name: \"\\x1b[31m\"\nx\x01: 1\n"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(errors_of("name: \"\\e[31m\"\n"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace npu::config
