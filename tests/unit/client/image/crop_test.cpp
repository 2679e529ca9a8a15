#include "client/image/crop.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace npu::image {
namespace {

// torch.manual_seed(n) seeds the same generator in the same way.
struct TorchDraws {
  explicit TorchDraws(uint32_t seed) : engine(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine()); }
  std::mt19937 engine;
};

TEST(RandomResizedCrop, DrawsTheBoxesOfTorchvision) {
  TorchDraws draws(0);
  const Size size{500, 375};
  EXPECT_EQ(random_resized_crop(size, draws), (Box{17, 80, 294, 343}));
  EXPECT_EQ(random_resized_crop(size, draws), (Box{52, 183, 251, 271}));
  EXPECT_EQ(random_resized_crop(size, draws), (Box{26, 182, 295, 318}));
  EXPECT_EQ(random_resized_crop(size, draws), (Box{28, 56, 151, 125}));
}

TEST(RandomResizedCrop, FallsBackToTheMiddleOfLongPictures) {
  TorchDraws draws(0);
  const Range nearly_all{0.9, 1.0};
  EXPECT_EQ(random_resized_crop({1000, 100}, draws, nearly_all), (Box{0, 433, 100, 133}));
  EXPECT_EQ(random_resized_crop({100, 1000}, draws, nearly_all), (Box{433, 0, 133, 100}));
}

TEST(RandomResizedCrop, StaysInsideAnyPicture) {
  TorchDraws draws(3);
  for (const Size size : {Size{1, 1}, Size{1, 7}, Size{9, 1}, Size{2, 2}, Size{31, 17}}) {
    for (int i = 0; i < 300; ++i) {
      const Box box = random_resized_crop(size, draws);
      ASSERT_TRUE(box.width > 0 && box.height > 0 && whole(size).covers(box));
    }
  }
}

TEST(Flip, DrawsTheFlipsOfTorchvision) {
  TorchDraws draws(0);
  for (const bool expected : {true, false, true, true, true, false, true, false, true, false}) {
    EXPECT_EQ(flip(draws), expected);
  }
}

TEST(Below, DrawsTheOffsetsOfTorchvisionsRandomCrop) {
  TorchDraws draws(0);
  for (const auto& [top, left] : {std::pair{8, 0}, {2, 6}, {7, 6}, {7, 1}, {1, 0}}) {
    EXPECT_EQ(below(draws, 9), top);
    EXPECT_EQ(below(draws, 9), left);
  }
}

struct ValidationCase {
  Size size, resized;
  int top, left;
};

TEST(CenterCrop, FollowsResizeAsInTorchvision) {
  for (const ValidationCase& c : {ValidationCase{{500, 375}, {341, 256}, 16, 58},
                                  {{400, 225}, {455, 256}, 16, 116},
                                  {{80, 100}, {256, 320}, 48, 16},
                                  {{333, 500}, {256, 384}, 80, 16},
                                  {{501, 375}, {342, 256}, 16, 59}}) {
    const Size resized = resize_shorter(c.size, 256);
    EXPECT_EQ(resized, c.resized);
    EXPECT_EQ(center_crop(resized, {224, 224}), (Box{c.top, c.left, 224, 224}));
  }
}

TEST(CenterCrop, OfASmallerPictureBeginsInItsPadding) {
  EXPECT_EQ(center_crop({100, 300}, {224, 224}), (Box{38, -62, 224, 224}));
  EXPECT_EQ(center_crop({223, 224}, {224, 224}), (Box{0, 0, 224, 224}));
  EXPECT_EQ(center_crop({221, 224}, {224, 224}), (Box{0, -1, 224, 224}));
}

TEST(ResizeShorter, StaysInRangeForAThreadOfPixels) {
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(resize_shorter({1, 9'000'000}, 256), (Size{256, kMost}));
  EXPECT_EQ(tf_resize_shorter({9'000'000, 1}, 256), (Size{kMost, 256}));
}

TEST(TfDistortedCrop, KeepsItsRanges) {
  TorchDraws draws(1);
  for (const Size size : {Size{500, 375}, Size{64, 64}, Size{300, 1000}}) {
    const double area = static_cast<double>(size.width) * size.height;
    int whole_pictures = 0;
    for (int i = 0; i < 2000; ++i) {
      const Box box = tf_distorted_crop(size, draws);
      ASSERT_TRUE(box.width > 0 && box.height > 0 && whole(size).covers(box));
      if (box == whole(size)) {
        ++whole_pictures;
        continue;
      }
      const double aspect = static_cast<double>(box.width) / box.height;
      EXPECT_GE(box.width * box.height, 0.1 * area);  // the object that must stay visible
      EXPECT_NEAR(aspect, 1.04, 0.29 + 1.0 / box.height + 1.0 / box.width);
    }
    EXPECT_LT(whole_pictures, 20);
  }
}

TEST(TfDistortedCrop, IsTheWholePictureWhereNothingFits) {
  TorchDraws draws(1);
  EXPECT_EQ(tf_distorted_crop({1000, 10}, draws), whole({1000, 10}));
}

TEST(TfCentralCrop, RoundsDown) {
  EXPECT_EQ(tf_resize_shorter({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(tf_central_crop({341, 256}, {224, 224}), (Box{16, 58, 224, 224}));
  EXPECT_EQ(tf_central_crop({343, 257}, {224, 224}), (Box{16, 59, 224, 224}));
}

}  // namespace
}  // namespace npu::image
