#include "client/data/dataset.hpp"

#include <gmock/gmock.h>

#include <filesystem>

namespace npu::data {
namespace {

using testing::HasSubstr;

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

TEST(OpenDataset, RecognisesFashionMnist) {
  if (!std::filesystem::exists(kFashion)) {
    GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  }
  config::DataConfig config;
  config.format = config::DataFormat::kIdx;
  config.path = kFashion;
  const auto sut = open_dataset(config, 10, 0);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->description, "Fashion-MNIST (digest ok), 60000 train + 10000 val");
  EXPECT_EQ(sut->normalization.mean[0], 0.2860F);
  EXPECT_EQ(sut->train.shape(), (ImageShape{28, 28, 1}));
  EXPECT_EQ(sut->train.label(0), 9);
  // The published constants are the data's own, to their four digits.
  double sum = 0;
  for (size_t i = 0; i < sut->train.size(); ++i) {
    for (const uint8_t v : sut->train.pixels(i)) sum += v;
  }
  EXPECT_NEAR(sum / 255 / (60'000.0 * 784), 0.2860, 5e-5);
}

TEST(OpenDataset, SyntheticFollowsTheConfig) {
  config::DataConfig config;
  config.train_samples = 30;
  config.val_samples = 7;
  config.image_size = 9;
  config.channels = 2;
  const auto sut = open_dataset(config, 5, 3);
  ASSERT_TRUE(sut);
  EXPECT_EQ(sut->train.size(), 30u);
  EXPECT_EQ(sut->val.size(), 7u);
  EXPECT_EQ(sut->train.shape(), (ImageShape{9, 9, 2}));
  EXPECT_EQ(sut->train.num_classes(), 5);
}

TEST(OpenDataset, OtherFormatsAreRefusedNotIgnored) {
  config::DataConfig config;
  config.format = config::DataFormat::kCifar10;
  config.path = "/d";
  const auto sut = open_dataset(config, 10, 0);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kUnimplemented);
  EXPECT_THAT(sut.error().message, HasSubstr("/d"));
}

}  // namespace
}  // namespace npu::data
