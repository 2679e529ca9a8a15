#include "client/image/types.hpp"

#include <gtest/gtest.h>

namespace npu::image {
namespace {

TEST(Image, KeepsItsBufferForPicturesOfUsualSize) {
  Image sut;
  sut.shape({0, 0, 300, 400}, 3);
  const uint8_t* before = sut.pixels.data();
  sut.shape({0, 0, 10, 10}, 3);
  sut.shape({5, 5, 400, 300}, 3);
  EXPECT_EQ(sut.pixels.data(), before);
}

TEST(Image, GivesBackWhatAHugePictureTook) {
  Image sut;
  sut.shape({0, 0, 5000, 5000}, 3);
  EXPECT_GE(sut.pixels.size(), size_t{75'000'000});
  sut.shape({0, 0, 10, 10}, 3);
  EXPECT_LE(sut.pixels.capacity(), kKeptBytes);
  EXPECT_GE(sut.pixels.size(), 300 + kSlackBytes);
}

}  // namespace
}  // namespace npu::image
