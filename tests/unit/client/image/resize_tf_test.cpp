#include <gtest/gtest.h>

#include <algorithm>

#include "client/image/resize.hpp"

namespace npu::image {
namespace {

Image row(std::vector<uint8_t> values) {
  Image image;
  image.shape({0, 0, 1, static_cast<int>(values.size())}, 1);
  std::ranges::copy(values, image.pixels.begin());
  return image;
}

std::vector<float> resized(const Image& image, const ResizePlan& plan) {
  std::vector<float> out(static_cast<size_t>(plan.window.width * plan.window.height));
  resize_tf(image, plan, out);
  return out;
}

// By hand: output i looks at i * scale, the last ones at the edge.
TEST(ResizeTf, InterpolatesBetweenTwoNeighbours) {
  const Image image = row({0, 10, 20, 50});
  EXPECT_EQ(resized(image, resize_crop(image.region, {2, 1})), (std::vector<float>{0, 20}));
  EXPECT_EQ(resized(image, resize_crop(image.region, {8, 1})),
            (std::vector<float>{0, 5, 10, 15, 20, 35, 50, 50}));
}

TEST(ResizeTf, DoesNotAverageWhenShrinking) {
  const Image image = row({0, 0, 0, 255, 0, 0, 0, 0, 0});
  EXPECT_EQ(resized(image, resize_crop(image.region, {3, 1})), (std::vector<float>{0, 255, 0}));
}

// Columns are computed in blocks.
TEST(ResizeTf, AWideWindowIsThatOfItsParts) {
  std::vector<uint8_t> values(400);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * i % 251);
  const Image image = row(values);
  const auto all = resized(image, resize_crop(image.region, {700, 1}));
  for (const int x : {0, 255, 256, 511, 512, 699}) {
    EXPECT_EQ(resized(image, {image.region, {700, 1}, {0, x, 1, 1}})[0],
              all[static_cast<size_t>(x)])
        << x;
  }
}

TEST(ResizeTf, NeedsNothingForAWindowBesideThePicture) {
  const Image image = row({10, 20, 30, 40});
  const ResizePlan plan{image.region, {4, 1}, {0, 9, 1, 2}};
  EXPECT_EQ(needed_tf(plan), (Box{0, 0, 0, 0}));
  EXPECT_EQ(resized(image, plan), (std::vector<float>{0, 0}));
}

TEST(ResizeTf, FillsWithZerosBesideThePictureAndNeedsOnlyWhatItSays) {
  const Image image = row({10, 20, 30, 40});
  const ResizePlan plan{image.region, {4, 1}, {0, 2, 1, 4}};
  EXPECT_EQ(needed_tf(plan), (Box{0, 2, 1, 2}));
  EXPECT_EQ(resized(image, plan), (std::vector<float>{30, 40, 0, 0}));
}

}  // namespace
}  // namespace npu::image
