#include "client/image/resize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "client/image/kernels/kernels.hpp"

namespace npu::image {
namespace {

Image make_image(const Box& region, int channels, std::mt19937& random) {
  Image image;
  image.shape(region, channels);
  for (uint8_t& byte : image.pixels) byte = static_cast<uint8_t>(random());
  return image;
}

std::vector<uint8_t> resized(Resizer& sut, const Image& image, const ResizePlan& plan) {
  std::vector<uint8_t> out(
      static_cast<size_t>(plan.window.width * plan.window.height * image.channels));
  sut.resize(image, plan, out);
  return out;
}

Image golden_row(int channels) {
  const uint8_t values[] = {0, 10, 20, 50, 80, 120, 200, 255};
  Image image;
  image.shape({0, 0, 1, 8}, channels);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      image.pixels[i * static_cast<size_t>(channels) + c] = values[i];
    }
  }
  return image;
}

void expect_golden(ResizePlan plan, const std::vector<uint8_t>& expected) {
  for (const ResizeKernels* kernels : available_resize_kernels()) {
    Resizer sut(*kernels);
    for (const int channels : {1, 3}) {
      const auto out = resized(sut, golden_row(channels), plan);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(out[i * static_cast<size_t>(channels)], expected[i])
            << kernels->name << ' ' << channels << " channels, pixel " << i;
      }
    }
  }
}

TEST(Resizer, ShrinksAsPillow) { expect_golden(resize_crop({0, 0, 1, 8}, {3, 1}), {13, 69, 188}); }

TEST(Resizer, EnlargesAsPillow) {
  expect_golden(resize_crop({0, 0, 1, 8}, {12, 1}),
                {0, 5, 12, 18, 35, 55, 75, 100, 133, 187, 228, 255});
}

TEST(Resizer, KeepsPixelsOfTheSameSize) {
  std::mt19937 random(1);
  const Image image = make_image({0, 0, 9, 13}, 3, random);
  Resizer sut;
  const auto out = resized(sut, image, resize_crop(image.region, {13, 9}));
  EXPECT_TRUE(std::equal(out.begin(), out.end(), image.pixels.begin()));
}

TEST(Resizer, AllKernelsGiveTheSameBits) {
  std::mt19937 random(2);
  Resizer plain(*available_resize_kernels().back());
  for (const ResizeKernels* kernels : available_resize_kernels()) {
    Resizer sut(*kernels);
    for (int i = 0; i < 300; ++i) {
      const auto side = [&random](int most) { return 1 + static_cast<int>(random() % most); };
      const Size source{side(i % 10 == 0 ? 900 : 90), side(i % 10 == 0 ? 700 : 70)};
      const Size to{side(50), side(50)};
      const Image image = make_image(whole(source), i % 5 == 0 ? 1 : 3, random);
      const ResizePlan plan = resize_crop(whole(source), to);
      ASSERT_EQ(resized(sut, image, plan), resized(plain, image, plan))
          << kernels->name << ": " << source.width << 'x' << source.height << " to " << to.width
          << 'x' << to.height;
    }
  }
}

// Extremes reach every bit of the sums.
TEST(Resizer, WhiteStaysWhite) {
  for (const ResizeKernels* kernels : available_resize_kernels()) {
    Resizer sut(*kernels);
    for (const int side : {1, 5, 224, 3000}) {
      Image image;
      image.shape({0, 0, side, side}, 3);
      std::ranges::fill(image.pixels, uint8_t{255});
      const auto out = resized(sut, image, resize_crop(image.region, {37, 37}));
      ASSERT_TRUE(std::ranges::all_of(out, [](uint8_t v) { return v == 255; })) << side;
    }
  }
}

TEST(Resizer, AWindowIsAPartOfTheWhole) {
  std::mt19937 random(3);
  const Size source{61, 47};
  const Image image = make_image(whole(source), 3, random);
  const Size to{29, 33};
  Resizer sut;
  const auto all = resized(sut, image, resize_crop(whole(source), to));
  for (const Box window : {Box{3, 5, 20, 11}, Box{0, 0, 1, 1}, Box{32, 28, 1, 1}}) {
    const auto part = resized(sut, image, {whole(source), to, window});
    for (int y = 0; y < window.height; ++y) {
      const auto* expected =
          &all[static_cast<size_t>(((window.top + y) * to.width + window.left) * 3)];
      ASSERT_TRUE(std::equal(expected, expected + window.width * 3,
                             &part[static_cast<size_t>(y * window.width * 3)]));
    }
  }
}

TEST(Resizer, FillsWithZerosBesideThePicture) {
  std::mt19937 random(4);
  const Image image = make_image({0, 0, 10, 10}, 3, random);
  Resizer sut;
  const auto all = resized(sut, image, resize_crop(image.region, {8, 8}));
  const auto out = resized(sut, image, {image.region, {8, 8}, {-2, -3, 12, 14}});
  for (int y = -2; y < 10; ++y) {
    for (int x = -3; x < 11; ++x) {
      for (int c = 0; c < 3; ++c) {
        const bool inside = y >= 0 && y < 8 && x >= 0 && x < 8;
        const int expected = inside ? all[static_cast<size_t>((y * 8 + x) * 3 + c)] : 0;
        ASSERT_EQ(out[static_cast<size_t>(((y + 2) * 14 + x + 3) * 3 + c)], expected);
      }
    }
  }
  const auto nothing = resized(sut, image, {image.region, {8, 8}, {20, 0, 2, 2}});
  EXPECT_EQ(nothing, std::vector<uint8_t>(12, 0));
}

TEST(Resizer, NeedsOnlyWhatItSays) {
  std::mt19937 random(5);
  const Size source{90, 80};
  const Image image = make_image(whole(source), 3, random);
  Resizer sut;
  for (const ResizePlan& plan : {ResizePlan{whole(source), {30, 20}, {5, 7, 9, 11}},
                                 ResizePlan{whole(source), {200, 300}, {50, 70, 3, 3}},
                                 ResizePlan{{10, 20, 40, 50}, {25, 25}, {0, 0, 25, 25}},
                                 ResizePlan{{10, 20, 40, 50}, {25, 25}, {20, 20, 10, 10}}}) {
    const Box box = needed(plan);
    ASSERT_TRUE(whole(source).covers(box));
    Image part = make_image(box, 3, random);
    for (int y = box.top; y < box.bottom(); ++y) {
      std::copy_n(image.at(y, box.left), part.stride(), part.row(y));
    }
    EXPECT_EQ(resized(sut, part, plan), resized(sut, image, plan));
  }
}

}  // namespace
}  // namespace npu::image
