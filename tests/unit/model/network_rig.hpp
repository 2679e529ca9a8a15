// A small network that is ready to train.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "model/network.hpp"
#include "random_values.hpp"

namespace npu::model::test {

inline NetworkConfig small_config() {
  return {.arch = "resnet8",
          .num_classes = 10,
          .channels = 3,
          .height = 12,
          .width = 12,
          .batch = 6,
          .bucket_bytes = 64 << 10,
          .first_bucket_bytes = 16 << 10};
}

/// A bound network with data of its own.
struct Rig {
  explicit Rig(const NetworkConfig& config, uint64_t seed = 1) {
    auto planned = Network::plan(config);
    EXPECT_TRUE(planned) << planned.error().message;
    network = std::make_unique<Network>(std::move(*planned));
    EXPECT_TRUE(network->bind(heap));
    network->initialise(seed);
    const auto n = static_cast<size_t>(config.batch);
    images =
        random_values(n * static_cast<size_t>(config.height * config.width * config.channels), 11);
    for (size_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<int32_t>(i) % config.num_classes);
    }
  }

  double step(const SgdParams& sgd = {.lr = 0.02F}) {
    const auto loss = network->forward_train(images, labels);
    EXPECT_TRUE(loss);
    EXPECT_TRUE(network->backward({}));
    for (size_t i = 0; i < network->bucket_count(); ++i) {
      network->sgd_step(i, sgd);
    }
    return loss->loss_sum;
  }

  std::vector<float> parameters() {
    const auto flat = network->parameters_flat();
    return {flat.begin(), flat.end()};
  }

  HeapAllocator heap;
  std::unique_ptr<Network> network;
  std::vector<float> images;
  std::vector<int32_t> labels;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace npu::model::test
