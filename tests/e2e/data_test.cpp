// Folders of images as jobs meet them: the same bits for any number of workers, with and without a
// cache and after a resume; files that cannot be read; class tables.
#include <gmock/gmock.h>

#include "e2e_fixture.hpp"
#include "tests/support/picture_folder.hpp"

namespace npu::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kTrain = 64;  // 4 steps an epoch
constexpr int kVal = 22;    // divides by no 4 ranks

class DataTest : public E2eTest {
 protected:
  void SetUp() override {
    for (int i = 0; i < kTrain; ++i) write("train", i);
    for (int i = 0; i < kVal; ++i) write("val", i);
    job_ = file("photos.yaml",
                "name: photos\ndevices: 0-3\nseed: 7\n"
                "model: {arch: resnet8, num_classes: 4}\n"
                "data: {format: imagefolder, path: " +
                    set_.root() +
                    ", image_size: 16, augment: imagenet, workers: 2}\n"
                    "train: {epochs: 2, batch_size: 16, print_freq: 1}\n"
                    "optimizer: {lr: 0.05}\n"
                    "checkpoint: {every_epochs: 1}\n");
  }

  static std::string name(const std::string& split, int i) {
    return split + "/class" + std::to_string(i % 4) + "/" + std::to_string(1000 + i) + ".ppm";
  }
  std::string write(const std::string& split, int i) {
    return set_.picture(name(split, i), 20 + i % 7, 18 + i % 5, [i](int y, int x, int c) {
      return 40 * (i % 4) + (y * (i % 3 + 1) + x * (c + 1) + 7 * i) % 90;
    });
  }
  std::string damage(const std::string& split, int i) {
    return set_.file(name(split, i), "P6\n20 18\n255\nends here");
  }

  Outcome run(std::vector<std::string> sets) {
    std::vector<std::string> args = {"launch", job_, "-o", "json"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    return npu(args);
  }
  /// The `done` record of a run that does not look at earlier ones.
  client::DoneEvent fresh(std::vector<std::string> sets) {
    sets.emplace_back("checkpoint.resume=never");
    const Outcome got = run(sets);
    EXPECT_EQ(got.code, 0) << got.err;
    err_ = got.err;
    events_ = events_of(got.out);
    return last<client::DoneEvent>(events_).value_or(client::DoneEvent{});
  }

  test::PictureFolder set_;
  std::string job_;
  std::string err_;
  std::vector<client::Event> events_;
};

TEST_F(DataTest, WorkersAndCacheChangeNoBit) {
  const auto expected = fresh({"data.workers=4"});
  EXPECT_EQ(expected.steps, 8);
  EXPECT_EQ(fresh({"data.workers=0"}).weights_digest, expected.weights_digest);
  EXPECT_EQ(fresh({"data.cache_bytes=1MiB"}).weights_digest, expected.weights_digest);
  EXPECT_EQ(fresh({"data.cache_bytes=20KiB"}).weights_digest, expected.weights_digest);
  EXPECT_NE(fresh({"seed=8"}).weights_digest, expected.weights_digest);
  const auto start = last<client::StartEvent>(events_);
  ASSERT_TRUE(start);
  EXPECT_THAT(start->data, HasSubstr("4 classes, 64 train + 22 val"));
}

TEST_F(DataTest, ResumeInMidEpochHasTheBitsOfAStraightRun) {
  const auto expected = fresh({"name=straight"});
  const Outcome first = run({"train.stop_after_steps=3", "checkpoint.every_steps=1"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome rest = run({});
  ASSERT_EQ(rest.code, 0) << rest.err;
  const auto done = last<client::DoneEvent>(events_of(rest.out));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->weights_digest, expected.weights_digest);
}

TEST_F(DataTest, AFileThatCannotBeReadEndsTheJobOnAllRanksByName) {
  const std::string path = damage("train", 41);
  const auto begin = Clock::now();
  const Outcome got = run({});
  EXPECT_EQ(got.code, 65) << got.err;
  EXPECT_THAT(got.err, AllOf(HasSubstr(path), HasSubstr("data.bad_image")));
  const auto error = last<client::ErrorEvent>(events_of(got.out));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr(path));
  EXPECT_LT(seconds_since(begin), 30) << "no rank waits for the one that failed";
}

TEST_F(DataTest, SkippedAndReplacedImagesKeepTheStepsOnAnyNumberOfRanks) {
  const std::string path = damage("train", 41);
  damage("train", 42);
  damage("val", 5);
  for (const std::string policy : {"skip", "replace"}) {
    SCOPED_TRACE(policy);
    for (const std::string devices : {"0", "0-1", "0-3"}) {
      const auto done = fresh({"data.bad_image=" + policy, "devices=" + devices});
      EXPECT_EQ(done.steps, 8);
      EXPECT_EQ(done.bad_images, 6) << "three files in each of two epochs";
      const auto epoch = last<client::EpochEvent>(events_);
      ASSERT_TRUE(epoch);
      EXPECT_EQ(epoch->val_samples, policy == "skip" ? kVal - 1 : kVal);
      EXPECT_THAT(err_, HasSubstr("warning: "));
    }
  }
}

TEST_F(DataTest, ResumeWithOtherClassesListsTheDifference) {
  ASSERT_EQ(run({"train.stop_after_steps=2"}).code, 0);
  for (const char* split : {"train", "val"}) {
    fs::rename(set_.root() + "/" + split + "/class2", set_.root() + "/" + split + "/apple");
  }
  const Outcome got = run({});
  EXPECT_EQ(got.code, 65) << got.err;
  EXPECT_THAT(got.err, AllOf(HasSubstr("lacks 'class2'"), HasSubstr("has besides 'apple'")));
}

TEST_F(DataTest, ClassesThatDifferBetweenTheSplitsAreRefused) {
  fs::rename(set_.root() + "/val/class2", set_.root() + "/val/class9");
  const Outcome got = run({});
  EXPECT_EQ(got.code, 65);
  EXPECT_THAT(got.err, AllOf(HasSubstr("lacks 'class2'"), HasSubstr("has besides 'class9'")));
}

TEST_F(DataTest, MoreWorkersThanCoresAreLegalWithAWarning) {
  fresh({"data.workers=160", "train.epochs=1"});
  const auto start = last<client::StartEvent>(events_);
  ASSERT_TRUE(start);
  EXPECT_THAT(start->warnings, testing::Contains(HasSubstr("data.workers 160")));
}

TEST_F(DataTest, ImagesOfOtherChannelsAndSizesTrainInEveryRecipe) {
  for (const std::string augment : {"none", "cifar", "imagenet"}) {
    for (const std::string profile : {"pytorch", "tf"}) {
      SCOPED_TRACE(augment + " " + profile);
      EXPECT_EQ(fresh({"data.augment=" + augment, "profile=" + profile, "train.epochs=1"}).steps,
                4);
    }
  }
}

}  // namespace
}  // namespace npu::e2e
