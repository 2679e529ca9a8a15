#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "shm/progress_client.hpp"
#include "shm/progress_daemon.hpp"

namespace npu::shm {
namespace {

TEST(TrainingProgress, NothingSaidIsNothingKnown) {
  const auto page = std::make_unique<TrainingProgress>();
  const TrainingView sut = read_progress(*page);
  EXPECT_EQ(sut.steps, 0u);
  EXPECT_EQ(sut.validations, 0u);
  EXPECT_EQ(sut.arch, "");
}

TEST(TrainingProgress, StepsAddUpAndTheLastOneShows) {
  const auto page = std::make_unique<TrainingProgress>();
  describe_training(*page, "resnet20", "fp16, loss scale 1024");
  report_step(*page, {.epoch = 0, .loss = 2, .skipped = true, .samples = 128, .data_wait_s = 0.5});
  report_step(*page, {.epoch = 1,
                      .loss = 1.5,
                      .top1 = 0.25,
                      .top5 = 0.75,
                      .learning_rate = 0.1,
                      .loss_scale = 512,
                      .samples = 128,
                      .data_wait_s = 0.25});
  report_validation(*page, 1.25, 0.5, 0.875);
  const TrainingView sut = read_progress(*page);
  EXPECT_EQ(sut.arch, "resnet20");
  EXPECT_EQ(sut.precision, "fp16, loss scale 1024");
  EXPECT_EQ(sut.steps, 2u);
  EXPECT_EQ(sut.epoch, 1u);
  EXPECT_EQ(sut.loss, 1.5);
  EXPECT_EQ(sut.top1, 0.25);
  EXPECT_EQ(sut.top5, 0.75);
  EXPECT_EQ(sut.learning_rate, 0.1);
  EXPECT_EQ(sut.loss_scale, 512);
  EXPECT_EQ(sut.skipped, 1u);
  EXPECT_EQ(sut.samples, 256u);
  EXPECT_EQ(sut.data_wait_s, 0.75);
  EXPECT_EQ(sut.validations, 1u);
  EXPECT_EQ(sut.val_loss, 1.25);
  EXPECT_EQ(sut.val_top1, 0.5);
  EXPECT_EQ(sut.val_top5, 0.875);
}

TEST(TrainingProgress, TextsThatDoNotFitAreCut) {
  const auto page = std::make_unique<TrainingProgress>();
  describe_training(*page, std::string(200, 'a'), std::string(200, 'b'));
  const TrainingView sut = read_progress(*page);
  EXPECT_EQ(sut.arch, std::string(kArchTextBytes - 1, 'a'));
  EXPECT_EQ(sut.precision, std::string(kPrecisionTextBytes - 1, 'b'));
}

TEST(TrainingProgress, WhateverARankWritesIsAPlainText) {
  const auto page = std::make_unique<TrainingProgress>();
  std::memset(static_cast<void*>(page.get()), 0xff, sizeof(*page));
  EXPECT_EQ(read_progress(*page).arch, "") << "the mark is not 1";
  page->text.written.store(1);
  const TrainingView sut = read_progress(*page);
  EXPECT_EQ(sut.arch, std::string(kArchTextBytes, '_')) << "no terminator";
  EXPECT_TRUE(std::isnan(sut.loss));
  const char nasty[] = "a\"}\n\x1b[31m\xc3";
  std::memcpy(page->text.arch, nasty, sizeof(nasty));
  EXPECT_EQ(read_progress(*page).arch, "a_____31m_");
}

TEST(TrainingProgress, MayBeReadWhileItIsWritten) {
  const auto page = std::make_unique<TrainingProgress>();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop.load()) report_step(*page, {.epoch = 1, .loss = 1, .samples = 8});
  });
  for (uint64_t last = 0; last < 1000;) {
    const TrainingView sut = read_progress(*page);
    EXPECT_GE(sut.steps, last);
    EXPECT_GE(sut.samples, 8 * sut.steps) << "what was counted with a step is seen with it";
    last = sut.steps;
  }
  stop.store(true);
  writer.join();
}

}  // namespace
}  // namespace npu::shm
