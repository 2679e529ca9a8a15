#include "client/data/view.hpp"

#include <gmock/gmock.h>

#include <set>

#include "client/image/crop.hpp"

namespace npu::data {
namespace {

using config::Augment;
using image::Box;
using image::Size;

TEST(View, NoneIsTheCentreOfTheScaledPicture) {
  const ViewOptions o{.size = 224, .resize = 256};
  // Goldens of torchvision's Resize(256) and CenterCrop(224), (origin, size) for width x height.
  const struct {
    Size picture, scaled;
    int top, left;
  } cases[] = {{{500, 375}, {341, 256}, 16, 58},
               {{400, 225}, {455, 256}, 16, 116},
               {{80, 100}, {256, 320}, 48, 16},
               {{333, 500}, {256, 384}, 80, 16}};
  for (const auto& c : cases) {
    const View sut = choose_view(o, c.picture, 3, 4);
    EXPECT_EQ(sut.plan.from, image::whole(c.picture));
    EXPECT_EQ(sut.plan.to, c.scaled);
    EXPECT_EQ(sut.plan.window, (Box{c.top, c.left, 224, 224}));
    EXPECT_EQ(sut.shift, CropFlip{});
  }
}

TEST(View, CifarTakesAPictureOfTheRightSizeAsItIsAndDrawsLikeTheBinarySet) {
  const ViewOptions o{.augment = Augment::kCifar, .size = 32, .resize = 32, .seed = 9};
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const View sut = choose_view(o, {32, 32}, 2, sample);
    EXPECT_EQ(sut.plan.from, (Box{0, 0, 32, 32}));
    EXPECT_EQ(sut.plan.to, (Size{32, 32}));
    EXPECT_EQ(sut.plan.window, (Box{0, 0, 32, 32}));
    EXPECT_EQ(sut.shift, draw_crop_flip(9, 2, sample));
  }
}

TEST(View, ImagenetDrawsABoxInsideAndFlipsHalfOfThem) {
  const ViewOptions o{.augment = Augment::kImagenet, .size = 224, .seed = 1};
  int flips = 0;
  std::set<int> tops;
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    const View sut = choose_view(o, {500, 375}, 0, sample);
    EXPECT_TRUE(image::whole({500, 375}).covers(sut.plan.from));
    EXPECT_GT(sut.plan.from.height * sut.plan.from.width, 0.07 * 500 * 375);
    EXPECT_EQ(sut.plan.to, (Size{224, 224}));
    EXPECT_EQ(sut.shift.top, kCropPad);
    flips += sut.shift.flip ? 1 : 0;
    tops.insert(sut.plan.from.top);
  }
  EXPECT_NEAR(flips, 500, 60);
  EXPECT_GT(tops.size(), 100U);
}

TEST(View, DependsOnSeedEpochAndSampleOnly) {
  const auto draw = [](uint64_t seed, int epoch, uint64_t sample) {
    const ViewOptions o{.augment = Augment::kImagenet, .seed = seed};
    return choose_view(o, {640, 480}, epoch, sample).plan.from;
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(View, ProfileTfUsesItsOwnGeometry) {
  const ViewOptions o{.tf = true, .size = 224, .resize = 256};
  const View sut = choose_view(o, {501, 375}, 0, 0);
  EXPECT_EQ(sut.plan.to, image::tf_resize_shorter({501, 375}, 256));
  EXPECT_EQ(sut.plan.window, image::tf_central_crop(sut.plan.to, {224, 224}));
}

TEST(SampleDraws, SpreadOverAllBits) {
  SampleDraws sut(0, 0, 0);
  uint32_t ones = 0;
  uint32_t zeros = 0;
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint32_t x = sut();
    ones |= x;
    zeros |= ~x;
    sum += x;
  }
  EXPECT_EQ(ones, ~0U);
  EXPECT_EQ(zeros, ~0U);
  EXPECT_NEAR(sum / 10'000 / 4294967296.0, 0.5, 0.02);
}

}  // namespace
}  // namespace npu::data
