#include "client/frontend/data_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace npu::frontend {
namespace {

using testing::HasSubstr;

class DataFactsTest : public testing::Test {
 protected:
  DataFactsTest() {
    std::string name = "/tmp/npu-facts-XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~DataFactsTest() override { std::filesystem::remove_all(root_); }

  void folder(const std::string& name) { std::filesystem::create_directories(root_ + "/" + name); }
  void file(const std::string& name) { std::ofstream(root_ + "/" + name) << "x"; }

  std::string root_;
};

TEST_F(DataFactsTest, ClassesAreTheFoldersInTrain) {
  folder("train/cat");
  folder("train/dog");
  folder("train/.hidden");  // torchvision counts it, too
  file("train/readme.txt");
  folder("test");
  for (const std::string end : {"", "/", "/."}) {
    const auto sut = look_at_data(root_ + end);
    ASSERT_TRUE(sut) << sut.error().message;
    EXPECT_EQ(sut->num_classes, 3);
    EXPECT_EQ(sut->format, config::DataFormat::kImageFolder);
    EXPECT_EQ(sut->path, root_);
    EXPECT_EQ(sut->name, root_.substr(5));
  }
}

TEST_F(DataFactsTest, FilesOfOtherFormatsAreRecognised) {
  file("train-images-idx3-ubyte.gz");
  EXPECT_EQ(look_at_data(root_)->format, config::DataFormat::kIdx);
  std::filesystem::remove(root_ + "/train-images-idx3-ubyte.gz");
  folder("cifar-10-batches-bin");
  file("cifar-10-batches-bin/data_batch_1.bin");
  const auto cifar = look_at_data(root_);
  ASSERT_TRUE(cifar);
  EXPECT_EQ(cifar->format, config::DataFormat::kCifar10);
  EXPECT_EQ(cifar->path, root_ + "/cifar-10-batches-bin");
}

TEST_F(DataFactsTest, WhatIsMissingIsNamed) {
  const auto refusal = [&](const std::string& path) {
    const auto sut = look_at_data(path);
    EXPECT_FALSE(sut);
    if (sut) return std::string();
    EXPECT_EQ(sut.error().exit, Exit::kNoInput);
    return sut.error().message;
  };
  EXPECT_THAT(refusal(root_ + "/none"), HasSubstr("there is no data folder"));
  EXPECT_THAT(refusal(root_), HasSubstr("expected train/ and val/"));
  folder("train");
  EXPECT_THAT(refusal(root_), HasSubstr("has no class folders"));
  folder("train/a");
  EXPECT_THAT(refusal(root_), HasSubstr("neither val/ nor test/"));
  std::filesystem::remove_all(root_ + "/train");
  file("train-00000-of-01024");
  EXPECT_THAT(refusal(root_), HasSubstr("TFRecord"));
}

}  // namespace
}  // namespace npu::frontend
