#include "client/data/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace npu::data {
namespace {

bool equal_pixels(const Dataset& a, const Dataset& b, size_t i) {
  return std::ranges::equal(a.pixels(i), b.pixels(i));
}

TEST(Synthetic, SameSeedSameBytesOtherSeedOthers) {
  const SyntheticOptions options{.train_samples = 20, .val_samples = 5, .seed = 7};
  const auto a = make_synthetic(options);
  const auto b = make_synthetic(options);
  SyntheticOptions other = options;
  other.seed = 8;
  const auto c = make_synthetic(other);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(equal_pixels(a->train, b->train, i));
    EXPECT_FALSE(equal_pixels(a->train, c->train, i));
  }
  EXPECT_FALSE(equal_pixels(a->train, a->val, 0)) << "validation must not repeat training images";
}

TEST(Synthetic, AnImageDoesNotDependOnHowManyThereAre) {
  const auto few = make_synthetic({.train_samples = 20, .val_samples = 5, .seed = 7});
  const auto many = make_synthetic({.train_samples = 200, .val_samples = 50, .seed = 7});
  EXPECT_TRUE(equal_pixels(few->train, many->train, 19));
}

TEST(Synthetic, NearestClassMeanOfTrainingClassifiesValidation) {
  const auto sut = make_synthetic({.shape = {16, 16, 1},
                                   .num_classes = 10,
                                   .train_samples = 400,
                                   .val_samples = 200,
                                   .seed = 1});
  const size_t elements = sut->train.shape().elements();
  std::vector<std::vector<double>> mean(10, std::vector<double>(elements));
  for (size_t i = 0; i < sut->train.size(); ++i) {
    for (size_t k = 0; k < elements; ++k) {
      mean[static_cast<size_t>(sut->train.label(i))][k] += sut->train.pixels(i)[k] / 40.0;
    }
  }
  size_t hits = 0;
  for (size_t i = 0; i < sut->val.size(); ++i) {
    std::vector<double> distance(10);
    for (size_t c = 0; c < 10; ++c) {
      for (size_t k = 0; k < elements; ++k) {
        const double d = sut->val.pixels(i)[k] - mean[c][k];
        distance[c] += d * d;
      }
    }
    const auto best = std::ranges::min_element(distance) - distance.begin();
    hits += best == sut->val.label(i);
  }
  EXPECT_EQ(hits, 200u);
}

TEST(Synthetic, MoreClassesThanSamplesAndOddSizesWork) {
  const auto sut = make_synthetic({.shape = {9, 13, 4}, .num_classes = 1000, .train_samples = 3});
  EXPECT_EQ(sut->train.label(2), 2);
  EXPECT_EQ(sut->train.pixels(2).size(), 9u * 13 * 4);
}

TEST(Synthetic, TooMuchIsRefusedBeforeAllocating) {
  const auto sut = make_synthetic({.shape = {1024, 1024, 4}, .train_samples = 100'000'000});
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadConfig);
}

}  // namespace
}  // namespace npu::data
