#include "client/data/idx_set.hpp"

#include <gmock/gmock.h>

#include "tests/unit/client/data/idx_files.hpp"

namespace npu::data {
namespace {

using testing::HasSubstr;

struct SetFiles {
  std::string train_images = idx_header(8, {4, 2, 3}) + counting(24);
  std::string train_labels = idx_header(8, {4}) + std::string("\0\1\2\1", 4);
  std::string val_images = idx_header(8, {2, 2, 3}) + counting(12);
  std::string val_labels = idx_header(8, {2}) + std::string("\2\0", 2);
  std::string suffix = ".gz";
};

void write_set(const TempFolder& folder, const SetFiles& set) {
  write_file(folder.file("train-images-idx3-ubyte" + set.suffix), set.train_images);
  write_file(folder.file("train-labels-idx1-ubyte" + set.suffix), set.train_labels);
  write_file(folder.file("t10k-images-idx3-ubyte" + set.suffix), set.val_images);
  write_file(folder.file("t10k-labels-idx1-ubyte" + set.suffix), set.val_labels);
}

std::string error_of(const SetFiles& set, int num_classes = 10) {
  TempFolder folder;
  write_set(folder, set);
  const auto sut = open_idx_set(folder.path(), num_classes);
  if (sut) return "";
  EXPECT_EQ(sut.error().exit, Exit::kBadData) << sut.error().message;
  return sut.error().message;
}

TEST(OpenIdxSet, ReadsPlainGzipAndDottedNames) {
  for (const char* suffix : {"", ".gz"}) {
    TempFolder folder;
    SetFiles set;
    set.suffix = suffix;
    write_set(folder, set);
    if (*suffix == '\0') {
      std::filesystem::rename(folder.file("t10k-labels-idx1-ubyte"),
                              folder.file("t10k-labels.idx1-ubyte"));
    }
    const auto sut = open_idx_set(folder.path(), 3);
    ASSERT_TRUE(sut) << sut.error().message;
    EXPECT_EQ(sut->train.size(), 4u);
    EXPECT_EQ(sut->val.size(), 2u);
    EXPECT_EQ(sut->train.shape(), (ImageShape{2, 3, 1}));
    EXPECT_EQ(sut->train.label(2), 2);
    EXPECT_EQ(sut->train.pixels(1)[0], 6);
    EXPECT_EQ(sut->description, "unknown set, 4 train + 2 val");
    EXPECT_EQ(sut->normalization.mean[0], 0.5F);
  }
}

TEST(OpenIdxSet, MissingFilesAreAllNamedWithAllPathsTried) {
  TempFolder folder;
  write_file(folder.file("train-images-idx3-ubyte"), "x");
  const auto sut = open_idx_set(folder.path(), 10);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kNotFound);
  EXPECT_EQ(sut.error().exit, Exit::kNoInput);
  for (const char* name :
       {"/train-labels-idx1-ubyte.gz", "/train-labels-idx1-ubyte or", "/train-labels.idx1-ubyte",
        "/t10k-images-idx3-ubyte.gz", "/t10k-labels-idx1-ubyte.gz"}) {
    EXPECT_THAT(sut.error().message, HasSubstr(folder.path() + name));
  }
  EXPECT_THAT(sut.error().message, testing::Not(HasSubstr("train-images")));
}

TEST(OpenIdxSet, CountMismatchNamesBothFiles) {
  SetFiles set;
  set.train_labels = idx_header(8, {3}) + std::string("\0\1\2", 3);
  const std::string text = error_of(set);
  EXPECT_THAT(text, HasSubstr("4 images in '"));
  EXPECT_THAT(text, HasSubstr("but 3 labels in '"));
}

TEST(OpenIdxSet, LabelOutsideTheClassesNamesFileAndIndex) {
  const std::string text = error_of(SetFiles{}, 2);
  EXPECT_THAT(text, HasSubstr("train-labels-idx1-ubyte.gz': label 2 of image 2 is outside 0..1"));
  EXPECT_THAT(text, HasSubstr("model.num_classes is 2"));
}

TEST(OpenIdxSet, DifferentShapesAndHugeSidesAreRefused) {
  SetFiles set;
  set.val_images = idx_header(8, {2, 3, 2}) + counting(12);
  EXPECT_THAT(error_of(set), HasSubstr("training images are 2 x 3, validation images 3 x 2"));
  set = {};
  set.train_images = idx_header(8, {4, 1, 5000}) + counting(20'000);
  EXPECT_THAT(error_of(set), HasSubstr("images of 1 x 5000"));
}

TEST(OpenIdxSet, SwappedImageAndLabelFilesAreRefused) {
  SetFiles set;
  std::swap(set.train_images, set.train_labels);
  EXPECT_THAT(error_of(set), HasSubstr("has 1 dimensions, expected 3 (images)"));
}

}  // namespace
}  // namespace npu::data
