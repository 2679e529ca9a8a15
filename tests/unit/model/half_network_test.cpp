// Training in halves beside fp32: what is equal, what is near, what is smaller.
#include <cstdlib>
#include <string>

#include "network_rig.hpp"

namespace npu::model {
namespace {

using test::Rig;
using test::same_bits;
using test::small_config;

class HalfNetwork : public testing::TestWithParam<DType> {
 protected:
  static NetworkConfig half_config(std::string_view arch) {
    NetworkConfig config = small_config();
    config.arch = arch;
    config.dtype = GetParam();
    return config;
  }
};

TEST_P(HalfNetwork, TrainingLowersTheLoss) {
  for (const char* arch : {"resnet8", "resnet18", "resnet18-32"}) {
    Rig sut(half_config(arch));
    const double first = sut.step();
    double last = first;
    for (int i = 0; i < 15; ++i) last = sut.step();
    EXPECT_LT(last, 0.6 * first) << arch;
  }
}

TEST_P(HalfNetwork, InstructionSetDoesNotChangeTheBits) {
  Rig fast(half_config("resnet8"));
  ASSERT_EQ(setenv("NPU_KERNELS", "plain", 1), 0);
  Rig plain(half_config("resnet8"));
  unsetenv("NPU_KERNELS");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fast.step(), plain.step());
  }
  EXPECT_TRUE(same_bits(fast.parameters(), plain.parameters()));
}

TEST_P(HalfNetwork, StaysNearFp32) {
  for (const char* arch : {"resnet8", "resnet18", "resnet50"}) {
    NetworkConfig config = half_config(arch);
    config.height = 33;
    config.width = 35;
    Rig half(config);
    config.dtype = DType::kFloat32;
    Rig full(config);
    const double want = full.step();
    EXPECT_NEAR(half.step(), want, (GetParam() == DType::kFloat16 ? 2e-2 : 5e-2) * want) << arch;
  }
}

TEST_P(HalfNetwork, EvaluatesInFp32WithTheMasterWeights) {
  NetworkConfig config = half_config("resnet18");
  Rig half(config);
  config.dtype = DType::kFloat32;
  Rig full(config);
  const auto got = half.network->forward_eval(half.images, config.batch);
  const auto want = full.network->forward_eval(full.images, config.batch);
  ASSERT_TRUE(got && want);
  EXPECT_TRUE(same_bits(*got, *want));
}

TEST_P(HalfNetwork, ALossScaleOfAPowerOfTwoOnlyScales) {
  // The scale keeps small gradients above the smallest half; with normal ones it changes no bit.
  if (GetParam() == DType::kFloat16) return;
  Rig plain(half_config("resnet8"));
  Rig scaled(half_config("resnet8"));
  ASSERT_TRUE(plain.network->forward_train(plain.images, plain.labels));
  ASSERT_TRUE(scaled.network->forward_train(scaled.images, scaled.labels));
  ASSERT_TRUE(plain.network->backward({}));
  ASSERT_TRUE(scaled.network->backward({}, 1024));
  const auto want = plain.network->gradient_bucket(0);
  const auto got = scaled.network->gradient_bucket(0);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], 1024 * want[i]) << i;
  }
}

TEST_P(HalfNetwork, HalvesTheActivations) {
  NetworkConfig config;
  config.arch = "resnet50";
  config.batch = 8;
  const auto full = Network::plan(config);
  config.dtype = GetParam();
  const auto half = Network::plan(config);
  ASSERT_TRUE(full && half);
  EXPECT_LE(static_cast<double>(half->memory().activations),
            0.55 * static_cast<double>(full->memory().activations));
}

INSTANTIATE_TEST_SUITE_P(Types, HalfNetwork, testing::Values(DType::kFloat16, DType::kBFloat16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace npu::model
