// From the words of a job file to what the network computes.
#include "client/train/recipe.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/load.hpp"

namespace npu::client {
namespace {

constexpr data::ImageShape kShape{8, 8, 3};

config::Job job_of(const std::string& text) {
  auto job = config::load_job_text(text, "job.yaml");
  EXPECT_TRUE(job) << job.error().message;
  return job ? *job : config::Job{};
}

/// A network whose logits are its classifier's bias, whatever the image.
class ConstantNetwork {
 public:
  ConstantNetwork(const config::Job& job, const std::vector<float>& logits) {
    auto planned = model::Network::plan(network_config(job, 1, kShape));
    EXPECT_TRUE(planned) << planned.error().message;
    network = std::make_unique<model::Network>(std::move(*planned));
    EXPECT_TRUE(network->bind(heap_));
    network->initialise(0);
    const auto state = network->state();
    network->import_state(state.size() - 2, std::vector<float>(state[state.size() - 2].count));
    network->import_state(state.size() - 1, logits);
    images.resize(static_cast<size_t>(network->config().batch) * kShape.elements(), 0.5F);
    labels.resize(static_cast<size_t>(network->config().batch), 0);
  }

  std::unique_ptr<model::Network> network;
  std::vector<float> images;
  std::vector<int32_t> labels;

 private:
  model::HeapAllocator heap_;
};

// Values of torch.nn.functional.cross_entropy for these logits and label 0.
TEST(LabelSmoothing, OfTheJobChangesTheTrainingLossOnly) {
  const std::vector<float> logits = {2.0F, 1.0F, 0.1F};
  const std::string text =
      "name: a\ndevices: [0]\nmodel: {arch: resnet8, num_classes: 3}\n"
      "train: {batch_size: 2, label_smoothing: ";
  for (const auto& [value, want] :
       {std::pair{"0}", 0.4170300162778335}, {"0.1}", 0.5136966829445004}}) {
    ConstantNetwork sut(job_of(text + value), logits);
    const auto trained = sut.network->forward_train(sut.images, sut.labels);
    ASSERT_TRUE(trained) << trained.error().message;
    EXPECT_NEAR(trained->loss_sum / 2, want, 1e-6);

    const auto evaluated = sut.network->forward_eval(sut.images, 2);
    ASSERT_TRUE(evaluated);
    EXPECT_NEAR(sut.network->evaluate(*evaluated, sut.labels)->loss_sum / 2, 0.4170300162778335,
                1e-6);
  }
}

}  // namespace
}  // namespace npu::client
