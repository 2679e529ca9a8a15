#include "client/data/augment.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "client/data/keyed_random.hpp"

namespace npu::data {
namespace {

using config::Augment;

// Mean 0 and deviation 1/255 give the pixel value back, so geometry can be read off.
Normalization identity() {
  Normalization n;
  n.mean.fill(0);
  n.stddev.fill(1.0F / 255);
  return n;
}

std::vector<uint8_t> ramp(const ImageShape& shape) {
  std::vector<uint8_t> pixels(shape.elements());
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i % 200 + 1);
  return pixels;
}

// The definition, pixel by pixel.
float expected_at(const std::vector<uint8_t>& pixels, const ImageShape& s, const CropFlip& d, int y,
                  int x, int c) {
  const int source_y = y + d.top - kCropPad;
  const int source_x = (d.flip ? s.width - 1 - x : x) + d.left - kCropPad;
  if (source_y < 0 || source_y >= s.height || source_x < 0 || source_x >= s.width) return 0;
  return pixels[static_cast<size_t>((source_y * s.width + source_x) * s.channels + c)];
}

TEST(Augmenter, EveryDrawMatchesTheDefinition) {
  for (const ImageShape shape : {ImageShape{5, 7, 1}, ImageShape{6, 5, 3}, ImageShape{2, 3, 4}}) {
    const Augmenter sut(shape, identity(), Augment::kCifar, 0);
    const auto pixels = ramp(shape);
    std::vector<float> out(shape.elements());
    for (int top = 0; top <= 8; ++top) {
      for (int left = 0; left <= 8; ++left) {
        for (const bool flip : {false, true}) {
          const CropFlip draw{top, left, flip};
          std::ranges::fill(out, -1.0F);
          sut.write(pixels, draw, out.data());
          size_t i = 0;
          for (int y = 0; y < shape.height; ++y) {
            for (int x = 0; x < shape.width; ++x) {
              for (int c = 0; c < shape.channels; ++c, ++i) {
                ASSERT_NEAR(out[i], expected_at(pixels, shape, draw, y, x, c), 1e-3)
                    << top << " " << left << " " << flip << " at " << y << "," << x << "," << c;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Augmenter, NoneOnlyNormalises) {
  Normalization n;
  n.mean.fill(0.2860F);
  n.stddev.fill(0.3530F);
  const ImageShape shape{1, 3, 1};
  const Augmenter sut(shape, n, Augment::kNone, 0);
  std::vector<float> out(3);
  sut.apply(std::vector<uint8_t>{0, 255, 128}, 3, 9, out.data());
  EXPECT_EQ(out[0], (0.0F - 0.2860F) / 0.3530F);
  EXPECT_EQ(out[1], (1.0F - 0.2860F) / 0.3530F);
  EXPECT_EQ(out[2], (128.0F / 255.0F - 0.2860F) / 0.3530F);
}

TEST(Augmenter, PaddingIsBlackBeforeNormalisation) {
  const ImageShape shape{4, 4, 2};
  Normalization n;
  n.mean = {0.1F, 0.4F, 0, 0};
  const Augmenter sut(shape, n, Augment::kCifar, 0);
  std::vector<float> out(shape.elements());
  sut.write(std::vector<uint8_t>(shape.elements(), 255), {0, 0, false}, out.data());
  EXPECT_EQ(out[0], -0.1F / 0.5F);
  EXPECT_EQ(out[1], -0.4F / 0.5F);
}

TEST(Augmenter, DependsOnSeedEpochAndSampleOnly) {
  const ImageShape shape{28, 28, 1};
  const auto pixels = ramp(shape);
  const auto image = [&](uint64_t seed, int epoch, uint64_t sample) {
    const Augmenter sut(shape, identity(), Augment::kCifar, seed);
    std::vector<float> out(shape.elements());
    sut.apply(pixels, epoch, sample, out.data());
    return out;
  };
  EXPECT_EQ(image(1, 2, 3), image(1, 2, 3));
  EXPECT_NE(image(1, 2, 3), image(1, 2, 4));
  EXPECT_NE(image(1, 2, 3), image(1, 3, 3));
  EXPECT_NE(image(1, 2, 3), image(2, 2, 3));
}

TEST(DrawCropFlip, IsUniform) {
  std::array<int, 9> top{};
  std::array<int, 9> left{};
  int flips = 0;
  std::set<std::tuple<int, int, bool>> distinct;
  constexpr int kDraws = 90'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const CropFlip sut = draw_crop_flip(0, 0, i);
    ++top.at(static_cast<size_t>(sut.top));
    ++left.at(static_cast<size_t>(sut.left));
    flips += sut.flip;
    distinct.emplace(sut.top, sut.left, sut.flip);
  }
  // Five standard deviations: 5 * sqrt(90000 * 1/9 * 8/9) = 471; 5 * sqrt(90000 / 4) = 750.
  for (size_t k = 0; k < 9; ++k) {
    EXPECT_NEAR(top.at(k), kDraws / 9, 471);
    EXPECT_NEAR(left.at(k), kDraws / 9, 471);
  }
  EXPECT_NEAR(flips, kDraws / 2, 750);
  EXPECT_EQ(distinct.size(), 162u);
}

TEST(DrawCropFlip, NeverChanges) {
  // Checkpoints promise the same bits after a resume, also by a later version.
  EXPECT_EQ(draw_crop_flip(0, 0, 0), (CropFlip{1, 2, true}));
  EXPECT_EQ(draw_crop_flip(1, 2, 3), (CropFlip{7, 8, true}));
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu) << "first output of splitmix64 with state 0";
}

TEST(ReferenceCrop, OffsetsMeanTheSame) {
  // torchvision RandomCrop(32, padding=4), generator seed 0: randint(0, 9) for top, then left.
  std::mt19937 generator(0);
  const std::array<std::pair<int, int>, 5> expected = {{{8, 0}, {2, 6}, {7, 6}, {7, 1}, {1, 0}}};
  for (const auto& [top, left] : expected) {
    EXPECT_EQ(static_cast<int>(generator() % 9), top);
    EXPECT_EQ(static_cast<int>(generator() % 9), left);
  }
}

}  // namespace
}  // namespace npu::data
