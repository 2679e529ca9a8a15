#include "client/image/orientation.hpp"

#include <gtest/gtest.h>

#include <array>

namespace npu::image {
namespace {

// A 3 x 2 picture: 1 2 3 / 4 5 6.
Image numbered() {
  Image image;
  image.shape({0, 0, 2, 3}, 1);
  for (uint8_t i = 0; i < 6; ++i) image.pixels[i] = static_cast<uint8_t>(i + 1);
  return image;
}

struct Case {
  int orientation;
  Size size;
  std::vector<uint8_t> pixels;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {1, {3, 2}, {1, 2, 3, 4, 5, 6}}, {2, {3, 2}, {3, 2, 1, 6, 5, 4}},
      {3, {3, 2}, {6, 5, 4, 3, 2, 1}}, {4, {3, 2}, {4, 5, 6, 1, 2, 3}},
      {5, {2, 3}, {1, 4, 2, 5, 3, 6}}, {6, {2, 3}, {4, 1, 5, 2, 6, 3}},
      {7, {2, 3}, {6, 3, 5, 2, 4, 1}}, {8, {2, 3}, {3, 6, 2, 5, 1, 4}}};
  return kCases;
}

TEST(Turn, MakesEachOrientationUpright) {
  for (const Case& c : cases()) {
    Image out;
    turn(numbered(), {3, 2}, c.orientation, out);
    EXPECT_EQ(turned_size({3, 2}, c.orientation), c.size);
    EXPECT_EQ(out.region, whole(c.size));
    EXPECT_EQ(std::vector<uint8_t>(out.pixels.begin(), out.pixels.begin() + 6), c.pixels)
        << c.orientation;
  }
}

TEST(StoredBox, FindsWhereUprightPixelsComeFrom) {
  const Size stored{3, 2};
  const Image image = numbered();
  for (const Case& c : cases()) {
    for (int y = 0; y < c.size.height; ++y) {
      for (int x = 0; x < c.size.width; ++x) {
        const Box box = stored_box({y, x, 1, 1}, stored, c.orientation);
        ASSERT_TRUE(whole(stored).covers(box));
        EXPECT_EQ(*image.at(box.top, box.left),
                  c.pixels[static_cast<size_t>(y * c.size.width + x)]);
        EXPECT_EQ(upright_box(box, stored, c.orientation), (Box{y, x, 1, 1}));
      }
    }
  }
}

std::vector<uint8_t> exif(std::vector<uint8_t> bytes) { return bytes; }

TEST(ExifOrientation, ReadsBothByteOrders) {
  EXPECT_EQ(exif_orientation(exif({'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                                   3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0, 0,    0})),
            6);
  EXPECT_EQ(exif_orientation(exif({'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                   0,   1,   0,  0, 0, 8, 0, 0, 0, 0, 0,    0, 0})),
            8);
}

/// A directory of `entries`: tag, type, count and value, each of them below 256.
std::vector<uint8_t> directory(const std::vector<std::array<uint8_t, 4>>& entries) {
  std::vector<uint8_t> bytes = {'I', 'I', 42, 0, 8, 0, 0, 0, static_cast<uint8_t>(entries.size()),
                                0};
  for (const auto& [tag, type, count, value] : entries) {
    for (const uint8_t byte : {tag, uint8_t{1}, type, uint8_t{0}, count, uint8_t{0}, uint8_t{0},
                               uint8_t{0}, value, uint8_t{0}, uint8_t{0}, uint8_t{0}}) {
      bytes.push_back(byte);
    }
  }
  return bytes;
}

// Types, counts and damage as Pillow takes them.
TEST(ExifOrientation, CountsOnlyAsANumber) {
  EXPECT_EQ(exif_orientation(directory({{0x12, 4, 1, 6}})), 6);
  EXPECT_EQ(exif_orientation(directory({{0x12, 8, 1, 6}})), 6);
  EXPECT_EQ(exif_orientation(directory({{0x12, 1, 1, 6}})), 1);
  EXPECT_EQ(exif_orientation(directory({{0x12, 3, 0, 6}})), 1);
  EXPECT_EQ(exif_orientation(directory({{0x12, 3, 1, 6}, {0x12, 3, 1, 3}})), 3);
  EXPECT_EQ(exif_orientation(directory({{0x0f, 99, 1, 0}, {0x12, 3, 1, 6}})), 6);
  EXPECT_EQ(exif_orientation(directory({{0x0f, 2, 200, 0}, {0x12, 3, 1, 6}})), 1);
}

TEST(ExifOrientation, IsUprightWhenDamaged) {
  const std::vector<uint8_t> whole_block = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12,
                                            1,   3,   0,  1, 0, 0, 0, 8, 0, 0, 0};
  for (size_t length = 0; length < whole_block.size(); ++length) {
    EXPECT_EQ(exif_orientation(std::span(whole_block).first(length)), 1) << length;
  }
  auto far = whole_block;
  far[4] = far[5] = far[6] = far[7] = 0xff;
  EXPECT_EQ(exif_orientation(far), 1);
  auto nine = whole_block;
  nine[18] = 9;
  EXPECT_EQ(exif_orientation(nine), 1);
}

}  // namespace
}  // namespace npu::image
