#include "client/data/cifar.hpp"

#include <gmock/gmock.h>

#include "client/data/cifar_records.hpp"
#include "tests/support/picture_folder.hpp"

namespace npu::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kPlane = 1024;

// Record i has label i % classes; red is i, green the row, blue the column.
std::string records(size_t count, size_t label_bytes, size_t classes) {
  std::string out;
  out.reserve(count * (label_bytes + 3 * kPlane));
  for (size_t i = 0; i < count; ++i) {
    if (label_bytes == 2) out += static_cast<char>(99);  // the coarse one is not looked at
    out += static_cast<char>(i % classes);
    out.append(kPlane, static_cast<char>(i % 251));
    for (size_t p = 0; p < kPlane; ++p) out += static_cast<char>(p / 32);
    for (size_t p = 0; p < kPlane; ++p) out += static_cast<char>(p % 32);
  }
  return out;
}

class Cifar10 : public testing::Test {
 protected:
  void SetUp() override {
    const std::string batch = records(10'000, 1, 10);
    for (int i = 1; i <= 5; ++i)
      folder_.file(in("data_batch_" + std::to_string(i) + ".bin"), batch);
    folder_.file(in("test_batch.bin"), batch);
    folder_.file(in("batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  }
  static std::string in(const std::string& name) { return "cifar-10-batches-bin/" + name; }
  [[nodiscard]] Result<DatasetPair> open() const { return open_cifar(folder_.root(), Cifar::k10); }

  test::PictureFolder folder_;
};

TEST_F(Cifar10, PlanesBecomePixelsAndNamesTheClassTable) {
  const auto sut = open();
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->train.size(), 50'000U);
  EXPECT_EQ(sut->val.size(), 10'000U);
  EXPECT_EQ(sut->train.shape(), (ImageShape{32, 32, 3}));
  EXPECT_EQ(sut->train.label(10'007), 7);
  const auto pixels = sut->train.pixels(42);
  EXPECT_THAT(pixels.subspan(3 * (5 * 32 + 9), 3), ElementsAre(42, 5, 9));
  EXPECT_EQ(sut->classes.size(), 10U);
  EXPECT_EQ(sut->classes[9], "j");
  EXPECT_EQ(sut->description, "CIFAR-10, 50000 train + 10000 val");
  // The folder itself is as good as the one above, and names may be missing.
  std::filesystem::remove(folder_.root() + "/" + in("batches.meta.txt"));
  const auto direct = open_cifar(folder_.root() + "/cifar-10-batches-bin", Cifar::k10);
  ASSERT_TRUE(direct);
  EXPECT_TRUE(direct->classes.empty());
}

TEST_F(Cifar10, WrongSizeNamesFileAndBothSizes) {
  std::filesystem::resize_file(folder_.root() + "/" + in("data_batch_3.bin"), 30'729'999);
  const auto sut = open();
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message,
              AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("30729999"), HasSubstr("30730000")));
}

TEST_F(Cifar10, LabelAboveNineNamesFileAndRecord) {
  std::string batch = records(10'000, 1, 10);
  batch[1234 * 3073] = 10;
  folder_.file(in("test_batch.bin"), batch);
  const auto sut = open();
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message,
              AllOf(HasSubstr("test_batch.bin"), HasSubstr("label 10"), HasSubstr("record 1234")));
}

TEST_F(Cifar10, MissingFilesAreAllNamed) {
  std::filesystem::remove(folder_.root() + "/" + in("data_batch_2.bin"));
  std::filesystem::remove(folder_.root() + "/" + in("test_batch.bin"));
  const auto sut = open();
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kNoInput);
  EXPECT_THAT(sut.error().message, HasSubstr("data_batch_2.bin, test_batch.bin"));
}

TEST_F(Cifar10, WrongNumberOfNamesIsRefused) {
  folder_.file(in("batches.meta.txt"), "a\nb\n");
  const auto sut = open();
  ASSERT_FALSE(sut);
  EXPECT_THAT(sut.error().message, HasSubstr("2 class names"));
}

TEST(ClassNames, BlanksAndEmptyLinesDoNotCount) {
  const auto sut = parse_class_names("f", "cat  \r\n\ndog\n\n", 2);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(*sut, ElementsAre("cat", "dog"));
  EXPECT_TRUE(parse_class_names("f", "", 2)->empty());
  EXPECT_FALSE(parse_class_names("f", "cat", 2));
}

TEST(Cifar100, TakesTheFineLabel) {
  const test::PictureFolder folder;
  folder.file("train.bin", records(50'000, 2, 100));
  folder.file("test.bin", records(10'000, 2, 100));
  const auto sut = open_cifar(folder.root(), Cifar::k100);
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_EQ(sut->train.num_classes(), 100);
  EXPECT_EQ(sut->train.label(98), 98);
  EXPECT_THAT(sut->val.pixels(3).subspan(0, 3), ElementsAre(3, 0, 0));
}

}  // namespace
}  // namespace npu::data
