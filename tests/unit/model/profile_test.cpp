// The profile of a step: what it counts, and that it changes nothing.
#include "model/profile.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "model/network.hpp"
#include "model/step_work.hpp"
#include "random_values.hpp"

namespace npu::model {
namespace {

const NetworkConfig kConfig{.arch = "resnet8",
                            .num_classes = 10,
                            .channels = 3,
                            .height = 12,
                            .width = 12,
                            .batch = 4,
                            .dtype = DType::kFloat32};

/// A bound network that took `steps` steps on noise.
struct Rig {
  explicit Rig(const NetworkConfig& config)
      : images(test::random_values(
            static_cast<size_t>(config.batch * config.height * config.width * config.channels), 5)),
        labels(static_cast<size_t>(config.batch), 3) {
    auto planned = Network::plan(config);
    EXPECT_TRUE(planned) << planned.error().message;
    network = std::make_unique<Network>(std::move(*planned));
    EXPECT_TRUE(network->bind(heap));
    network->initialise(1);
  }
  void step() {
    EXPECT_TRUE(network->forward_train(images, labels));
    EXPECT_TRUE(network->backward({}));
    for (size_t i = 0; i < network->bucket_count(); ++i) network->sgd_step(i, {});
  }

  HeapAllocator heap;
  std::unique_ptr<Network> network;
  std::vector<float> images;
  std::vector<int32_t> labels;
};

uint64_t flops_of(const Profile& profile, KernelKind kind) {
  uint64_t flops = 0;
  for (const ProfileRow& row : profile.rows()) flops += row.kind == kind ? row.flops : 0;
  return flops;
}

TEST(Profile, CountsTheArithmeticOfAStep) {
  Rig rig(kConfig);
  Profile sut(Profile::Clock::kThread);
  rig.network->set_profile(&sut);
  rig.step();
  const auto work = step_work(kConfig);
  ASSERT_TRUE(work);
  uint64_t flops = 0;
  for (const ProfileRow& row : sut.rows()) {
    EXPECT_GT(row.calls, 0U);
    EXPECT_NE(row.layer, "network") << kernel_kind_name(row.kind);
    flops += row.flops;
  }
  EXPECT_EQ(flops, 4 * work->training_flops());
  EXPECT_EQ(flops_of(sut, KernelKind::kConvForward),
            flops_of(sut, KernelKind::kConvBackwardWeights));
}

TEST(Profile, EndsWhenItIsTakenAway) {
  Rig rig(kConfig);
  Profile sut(Profile::Clock::kWall);
  rig.network->set_profile(&sut);
  rig.network->set_profile(nullptr);
  rig.step();
  EXPECT_TRUE(sut.rows().empty());
}

TEST(Profile, ChangesNoBitOfAnyFormat) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    NetworkConfig config = kConfig;
    config.dtype = dtype;
    Rig plain(config), watched(config);
    Profile sut(Profile::Clock::kWall);
    watched.network->set_profile(&sut);
    for (int i = 0; i < 2; ++i) {
      plain.step();
      watched.step();
    }
    const auto a = plain.network->parameters_flat();
    const auto b = watched.network->parameters_flat();
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace npu::model
