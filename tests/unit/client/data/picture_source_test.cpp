#include "client/data/picture_source.hpp"

#include <gmock/gmock.h>

#include "tests/support/picture_folder.hpp"

namespace npu::data {
namespace {

using config::Augment;
using config::BadImage;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr Normalization kPlain{.mean = {}, .stddev = {1, 1, 1, 1}, .scale = 1};

/// Pictures c/0.ppm ... of 16 x 16, picture i of level 10 * (i + 1), in two classes.
class PictureSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) folder_.plain(name(i), 10 * (i + 1));
  }
  static std::string name(int i) {
    return std::string(i < 3 ? "a/" : "b/") + std::to_string(i) + ".ppm";
  }
  std::unique_ptr<PictureSource> make(PictureOptions options,
                                      std::shared_ptr<PictureMemory> memory = nullptr) {
    options.view.size = options.view.resize = 16;
    options.warn = [this](const std::string& text) { warnings_.push_back(text); };
    std::optional<PictureCache> cache;
    if (memory) cache.emplace(std::move(memory), 0);
    return std::make_unique<PictureSource>(
        file_pictures(std::move(*ImageFolder::scan(folder_.root())), false, std::move(cache)),
        std::move(options));
  }
  struct Read {
    Result<Outcome> outcome;
    std::vector<float> pixels;
    int32_t label = -7;
  };
  static Read read(SampleReader& reader, size_t sample, int epoch = 0) {
    Read out{.pixels = std::vector<float>(16 * 16 * 3, -1)};
    out.outcome = reader.read(sample, epoch, out.pixels.data(), &out.label);
    return out;
  }

  test::PictureFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(PictureSourceTest, PixelsAndLabelOfEachFile) {
  const auto sut = make({.normalization = kPlain, .label_offset = 1});
  EXPECT_EQ(sut->size(), 6U);
  EXPECT_EQ(sut->shape(), (ImageShape{16, 16, 3}));
  const auto reader = sut->reader();
  for (const int i : {4, 0, 5}) {
    const Read got = read(*reader, static_cast<size_t>(i));
    ASSERT_TRUE(got.outcome) << got.outcome.error().message;
    EXPECT_EQ(*got.outcome, Outcome::kSample);
    EXPECT_THAT(got.pixels, Each(static_cast<float>(10 * (i + 1))));
    EXPECT_EQ(got.label, (i < 3 ? 0 : 1) + 1);
  }
}

TEST_F(PictureSourceTest, FlipAndNormalisationReachThePixels) {
  folder_.picture("a/0.ppm", 16, 16, [](int, int x, int c) { return 10 * x + c; });
  const Normalization n{.mean = {0.5F, 0.25F, 0}, .stddev = {2, 1, 0.5F, 1}};
  const auto sut = make({.view = {.augment = Augment::kCifar, .seed = 3}, .normalization = n});
  const auto reader = sut->reader();
  int flipped = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const Read got = read(*reader, 0, epoch);
    const CropFlip draw = draw_crop_flip(3, epoch, 0);
    flipped += draw.flip ? 1 : 0;
    const int x = 8 + (draw.flip ? -1 : 1) * (draw.left - kCropPad);
    const int column = draw.flip ? 15 - (8 - (draw.left - kCropPad)) : x;
    const int y = 8;
    for (int c = 0; c < 3; ++c) {
      const auto k = static_cast<size_t>(c);
      const float value = (static_cast<float>(10 * column + c) / 255.0F - n.mean[k]) / n.stddev[k];
      EXPECT_EQ(got.pixels[static_cast<size_t>((y * 16 + 8) * 3 + c)], value) << epoch;
    }
  }
  EXPECT_GT(flipped, 2);
  EXPECT_LT(flipped, 18);
}

TEST_F(PictureSourceTest, AnImageThatCannotBeReadEndsTheJobByName) {
  const std::string path = folder_.file(name(2), "P6\n16 16\n255\nshort");
  const auto sut = make({.normalization = kPlain});
  const auto got = read(*sut->reader(), 2);
  ASSERT_FALSE(got.outcome);
  EXPECT_EQ(got.outcome.error().exit, Exit::kBadData);
  EXPECT_THAT(got.outcome.error().message, AllOf(HasSubstr(path), HasSubstr("data.bad_image")));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PictureSourceTest, SkipTakesTheNextReadableOneInTrainingOnly) {
  folder_.file(name(2), "");
  folder_.file(name(3), "text");
  const auto train =
      make({.normalization = kPlain, .bad_image = BadImage::kSkip, .training = true});
  Read got = read(*train->reader(), 2);
  ASSERT_TRUE(got.outcome);
  EXPECT_EQ(*got.outcome, Outcome::kStandIn);
  EXPECT_THAT(got.pixels, Each(50.0F)) << "picture 4";
  EXPECT_EQ(got.label, 1) << "and its label";
  const auto val = make({.normalization = kPlain, .bad_image = BadImage::kSkip});
  got = read(*val->reader(), 2);
  ASSERT_TRUE(got.outcome);
  EXPECT_EQ(*got.outcome, Outcome::kLeftOut);
}

TEST_F(PictureSourceTest, SkipWrapsAroundAndEndsWhenNothingIsReadable) {
  for (int i = 1; i < 6; ++i) folder_.file(name(i), "");
  const auto sut = make({.normalization = kPlain, .bad_image = BadImage::kSkip, .training = true});
  EXPECT_THAT(read(*sut->reader(), 3).pixels, Each(10.0F));
  folder_.file(name(0), "");
  const auto none = read(*sut->reader(), 3);
  ASSERT_FALSE(none.outcome);
  EXPECT_THAT(none.outcome.error().message, HasSubstr("stand-in for image 3"));
}

TEST_F(PictureSourceTest, ReplaceIsTheMeanColourWithItsOwnLabel) {
  folder_.file(name(4), "");
  for (const bool training : {false, true}) {
    const auto sut = make({.normalization = {.mean = {0.3F, 0.4F, 0.5F}},
                           .bad_image = BadImage::kReplace,
                           .training = training});
    const Read got = read(*sut->reader(), 4);
    ASSERT_TRUE(got.outcome);
    EXPECT_EQ(*got.outcome, Outcome::kStandIn);
    EXPECT_THAT(got.pixels, Each(0.0F));
    EXPECT_EQ(got.label, 1);
  }
}

TEST_F(PictureSourceTest, EachKindIsWarnedAboutOnceWithItsFirstFile) {
  for (int i = 0; i < 3; ++i) folder_.file(name(i), "");
  folder_.file(name(4), "text, not an image");
  const auto sut = make({.normalization = kPlain, .bad_image = BadImage::kReplace});
  const auto reader = sut->reader();
  const auto other = sut->reader();
  for (const size_t i : {1U, 0U, 2U, 4U, 1U}) {
    ASSERT_TRUE(read(*reader, i).outcome);
    ASSERT_TRUE(read(*other, i).outcome);
  }
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr(name(1)), HasSubstr("mean colour")));
  EXPECT_THAT(warnings_[1], HasSubstr(name(4)));
}

TEST_F(PictureSourceTest, TheCacheChangesNoBitAndSparesTheFiles) {
  for (int i = 0; i < 6; ++i) {
    folder_.picture(name(i), 40 + i, 30,
                    [i](int y, int x, int c) { return y * x * (c + i) % 256; });
  }
  const PictureOptions options{.view = {.augment = Augment::kImagenet, .seed = 5},
                               .normalization = kPlain};
  const auto plain = make(options);
  const auto cached = make(options, *PictureMemory::open(-1, 6, uint64_t{1} << 20));
  const auto half = make(options, *PictureMemory::open(-1, 6, uint64_t{3} * 46 * 30 * 3));
  const auto a = plain->reader();
  const auto b = cached->reader();
  const auto c = half->reader();
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (size_t i = 0; i < 6; ++i) {
      const Read expected = read(*a, i, epoch);
      ASSERT_TRUE(expected.outcome);
      EXPECT_EQ(read(*b, i, epoch).pixels, expected.pixels);
      EXPECT_EQ(read(*c, i, epoch).pixels, expected.pixels);
    }
  }
  for (int i = 0; i < 6; ++i) std::filesystem::remove(folder_.root() + "/" + name(i));
  EXPECT_TRUE(read(*cached->reader(), 3, 9).outcome) << "from memory, by another thread's reader";
  EXPECT_FALSE(read(*plain->reader(), 3, 9).outcome);
}

}  // namespace
}  // namespace npu::data
