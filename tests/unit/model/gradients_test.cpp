// The norm of all gradients and the name of one that is not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "model/network.hpp"
#include "random_values.hpp"

namespace npu::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A network after one backward pass; its metrics slot holds what must not count.
struct Rig {
  explicit Rig(uint64_t bucket_bytes = 64 << 10, int threads = 1) {
    auto planned = Network::plan({.arch = "resnet8",
                                  .num_classes = 10,
                                  .channels = 3,
                                  .height = 12,
                                  .width = 12,
                                  .batch = 4,
                                  .threads = threads,
                                  .bucket_bytes = bucket_bytes,
                                  .first_bucket_bytes = bucket_bytes});
    EXPECT_TRUE(planned) << planned.error().message;
    network = std::make_unique<Network>(std::move(*planned));
    EXPECT_TRUE(network->bind(heap));
    network->initialise(1);
    const auto images = test::random_values(4 * 12 * 12 * 3, 11);
    const std::vector<int32_t> labels = {0, 3, 5, 9};
    EXPECT_TRUE(network->forward_train(images, labels));
    EXPECT_TRUE(network->backward({}));
    for (float& value : network->metrics_slot()) value = kNan;
  }

  double squares() {
    double sum = 0;
    for (size_t i = 0; i < network->bucket_count(); ++i) network->add_gradient_squares(i, sum);
    return sum;
  }

  HeapAllocator heap;
  std::unique_ptr<Network> network;
};

TEST(Gradients, SquaresAreThoseOfTheStateDict) {
  Rig sut;
  double want = 0;
  for (size_t i = 0; i < sut.network->state().size(); ++i) {
    const StateEntry& entry = sut.network->state()[i];
    if (entry.kind != StateKind::kParameter) continue;
    std::vector<float> plain(entry.count);
    sut.network->export_gradient(i, plain);
    for (const float value : plain) want += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_GT(want, 0);
  EXPECT_NEAR(sut.squares(), want, 1e-12 * want);
}

TEST(Gradients, SquaresHaveTheSameBitsForAnyBucketSize) {
  const double want = Rig().squares();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 10, uint64_t{4} << 20}) {
    EXPECT_EQ(Rig(bytes).squares(), want) << bytes;
  }
}

TEST(Gradients, FirstNonFiniteIsNamedInTheOrderOfBackward) {
  Rig sut;
  EXPECT_EQ(sut.network->first_non_finite_gradient().name, "");

  const size_t last = sut.network->bucket_count() - 1;
  ASSERT_GT(last, 0u);
  sut.network->gradient_bucket(last)[0] = kInfinity;  // of an early layer
  const NonFiniteGradient late = sut.network->first_non_finite_gradient();
  EXPECT_NE(late.name, "");
  EXPECT_FALSE(late.nan);

  sut.network->gradient_bucket(0)[0] = kNan;  // the classifier's, which backward completes first
  const NonFiniteGradient first = sut.network->first_non_finite_gradient();
  EXPECT_TRUE(first.name.starts_with("fc.")) << first.name;
  EXPECT_TRUE(first.nan);
  EXPECT_NE(first.name, late.name);
}

}  // namespace
}  // namespace npu::model
