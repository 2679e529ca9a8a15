#include "client/data/open.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "client/data/memory_source.hpp"
#include "tests/support/picture_folder.hpp"

namespace npu::data {
namespace {

using config::Augment;
using config::DataFormat;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

const Dataset& memory(const SampleSource& source) {
  return dynamic_cast<const MemorySource&>(source).dataset();
}

/// The first sample, as the loader would have it.
std::vector<float> first(const SampleSource& source, int32_t* label = nullptr) {
  std::vector<float> out(source.shape().elements());
  int32_t ignored = 0;
  EXPECT_TRUE(source.reader()->read(0, 0, out.data(), label != nullptr ? label : &ignored));
  return out;
}

config::Job synthetic() {
  config::Job job;
  job.seed = 3;
  job.model.num_classes = 5;
  job.data.train_samples = 30;
  job.data.val_samples = 7;
  job.data.image_size = 9;
  job.data.channels = 3;
  return job;
}

TEST(OpenData, RecognisesFashionMnist) {
  if (!std::filesystem::exists(kFashion)) {
    GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  }
  config::Job job;
  job.model.num_classes = 10;
  job.data.format = DataFormat::kIdx;
  job.data.path = kFashion;
  const auto sut = open_data(job);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->description, "Fashion-MNIST (digest ok), 60000 train + 10000 val");
  const Dataset& train = memory(*sut->train);
  EXPECT_EQ(train.shape(), (ImageShape{28, 28, 1}));
  EXPECT_EQ(train.label(0), 9);
  EXPECT_EQ(first(*sut->train)[0], (0 - 0.2860F) / 0.3530F) << "the set's own constants";
  // The published constants are the data's own, to their four digits.
  double sum = 0;
  for (size_t i = 0; i < train.size(); ++i) {
    for (const uint8_t v : train.pixels(i)) sum += v;
  }
  EXPECT_NEAR(sum / 255 / (60'000.0 * 784), 0.2860, 5e-5);
}

TEST(OpenData, SyntheticFollowsTheConfig) {
  const auto sut = open_data(synthetic());
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->train->size(), 30U);
  EXPECT_EQ(sut->val->size(), 7U);
  EXPECT_EQ(sut->shape(), (ImageShape{9, 9, 3}));
  EXPECT_EQ(memory(*sut->train).num_classes(), 5);
}

TEST(OpenData, LabelOffsetLeavesClassZeroFree) {
  config::Job job = synthetic();
  job.data.label_offset = 1;
  const auto sut = open_data(job);
  ASSERT_TRUE(sut);
  EXPECT_EQ(memory(*sut->train).num_classes(), 4);
  int32_t label = -1;
  first(*sut->val, &label);
  EXPECT_EQ(label, 1);
}

TEST(OpenData, MeanAndStdOfTheJobReplaceTheSets) {
  config::Job job = synthetic();
  job.data.mean = {0.1, 0.2, 0.3};
  job.data.std = {1, 2, 4};
  const auto sut = open_data(job);
  ASSERT_TRUE(sut);
  const uint8_t blue = memory(*sut->train).pixels(0)[2];
  EXPECT_EQ(first(*sut->train)[2], (static_cast<float>(blue) / 255.0F - 0.3F) / 4.0F);
  job.data.mean = {0.1};
  job.data.std = {1};
  const auto short_one = open_data(job);
  ASSERT_FALSE(short_one);
  EXPECT_EQ(short_one.error().exit, Exit::kBadConfig);
  EXPECT_THAT(short_one.error().message, HasSubstr("3 channels"));
}

TEST(OpenData, SetsInMemoryAreScaledWhenTheRecipeAsksForIt) {
  config::Job job = synthetic();
  job.data.augment = Augment::kImagenet;
  job.data.image_size = 24;
  const auto sut = open_data(job);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->shape(), (ImageShape{24, 24, 3}));
  EXPECT_NE(dynamic_cast<PictureSource*>(sut->train.get()), nullptr);
  first(*sut->train);
  job.data.channels = 2;
  const auto odd = open_data(job);
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().message, HasSubstr("2 channels"));
}

class OpenFolders : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* split : {"train", "val"}) {
      for (const char* name : {"cat", "dog", "owl"}) {
        folder_.plain(std::string(split) + "/" + name + "/1.ppm", 128);
      }
    }
    job_.model.num_classes = 3;
    job_.data.format = DataFormat::kImageFolder;
    job_.data.path = folder_.root();
    job_.data.image_size = 16;
  }
  test::PictureFolder folder_;
  config::Job job_;
};

TEST_F(OpenFolders, HasClassesAndImagenetsConstants) {
  const auto sut = open_data(job_);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(sut->classes, testing::ElementsAre("cat", "dog", "owl"));
  EXPECT_EQ(sut->description, "image folder " + folder_.root() + ", 3 classes, 3 train + 3 val");
  EXPECT_EQ(first(*sut->train)[1], (128 / 255.0F - 0.456F) / 0.224F);
}

TEST_F(OpenFolders, ProfileTfSubtractsItsMeansFromBytes) {
  job_.profile = config::Profile::kTf;
  job_.data.augment = Augment::kImagenet;
  const auto sut = open_data(job_);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(first(*sut->train)[0], 128 - 123.68F);
  EXPECT_EQ(first(*sut->val)[2], 128 - 103.94F);
}

TEST_F(OpenFolders, AClassThatIsMissingInValidationIsNamed) {
  std::filesystem::remove_all(folder_.root() + "/val/dog");
  folder_.plain("val/emu/1.ppm", 1);
  const auto sut = open_data(job_);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message,
              AllOf(HasSubstr("lacks 'dog'"), HasSubstr("has besides 'emu'"), HasSubstr("/val")));
}

TEST_F(OpenFolders, TooFewOutputsForTheClassesNamesBothNumbers) {
  job_.model.num_classes = 2;
  EXPECT_THAT(open_data(job_).error().message,
              AllOf(HasSubstr("3 classes"), HasSubstr("model.num_classes 2"), HasSubstr("to 3")));
  job_.model.num_classes = 3;
  job_.data.label_offset = 1;
  EXPECT_THAT(open_data(job_).error().message,
              AllOf(HasSubstr("3 classes beside background"), HasSubstr("to 4")));
  job_.model.num_classes = 1001;
  EXPECT_TRUE(open_data(job_)) << "more outputs than classes are legal";
}

TEST(InputSize, DefaultsFollowTheRecipe) {
  const auto size = [](Augment augment, int image_size, int val_resize) {
    config::DataConfig d;
    d.augment = augment;
    d.image_size = image_size;
    d.val_resize = val_resize;
    const InputSize s = input_size(d, 224);
    return std::pair(s.crop, s.resize);
  };
  EXPECT_EQ(size(Augment::kImagenet, 0, 0), std::pair(224, 256));
  EXPECT_EQ(size(Augment::kImagenet, 176, 232), std::pair(176, 232));
  EXPECT_EQ(size(Augment::kCifar, 32, 0), std::pair(32, 32));
  EXPECT_EQ(size(Augment::kNone, 0, 0), std::pair(224, 224));
}

}  // namespace
}  // namespace npu::data
