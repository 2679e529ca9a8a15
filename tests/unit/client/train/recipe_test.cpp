// From the words of a job file to what the network computes.
#include "client/train/recipe.hpp"

#include <gtest/gtest.h>

#include <memory>
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

double rate(const std::string& text, int64_t steps_per_epoch, int epoch, int64_t step) {
  const auto sut = LearningRate::of(job_of("name: a\n" + text), steps_per_epoch);
  EXPECT_TRUE(sut) << sut.error().message;
  return sut ? sut->at(epoch, step) : -1;
}

TEST(LearningRate, OfThePytorchProfileChangesAtEpochBordersOnly) {
  const std::string text = "schedule: {kind: step, step_size: 30, warmup_epochs: 0}\n";
  EXPECT_DOUBLE_EQ(rate(text, 100, 29, 99), 0.1);
  EXPECT_DOUBLE_EQ(rate(text, 100, 30, 0), 0.01);
  const std::string cosine = "train: {epochs: 10}\nschedule: {kind: cosine}\n";
  EXPECT_DOUBLE_EQ(rate(cosine, 100, 5, 0), 0.05);
  EXPECT_DOUBLE_EQ(rate(cosine, 100, 5, 99), 0.05);
}

// base 0.1, 5004 steps an epoch, five epochs of warm-up, drops at 30, 60 and 80.
TEST(LearningRate, OfTheTfProfileFollowsItsScript) {
  const std::string text =
      "profile: tf\nschedule: {kind: multistep, milestones: [30, 60, 80], warmup_epochs: 5}\n";
  EXPECT_DOUBLE_EQ(rate(text, 5004, 0, 0), 0);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 2, 2502), 0.05);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 5, 0), 0.1);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 30, 0), 0.1);  // the boundary step keeps the old value
  EXPECT_DOUBLE_EQ(rate(text, 5004, 30, 1), 0.01);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 60, 1), 0.001);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 80, 1), 0.0001);
  const std::string step =
      "profile: tf\nschedule: {kind: step, step_size: 30, gamma: 0.5, warmup_epochs: 5}\n";
  EXPECT_DOUBLE_EQ(rate(step, 5004, 60, 0), 0.05);
  EXPECT_DOUBLE_EQ(rate(step, 5004, 60, 1), 0.025);
}

TEST(LearningRate, OfTheTfProfileIsPerStepForEveryKind) {
  const std::string cosine =
      "profile: tf\ntrain: {epochs: 10}\nschedule: {kind: cosine, warmup_epochs: 2}\n";
  EXPECT_DOUBLE_EQ(rate(cosine, 100, 0, 0), 0);
  EXPECT_DOUBLE_EQ(rate(cosine, 100, 1, 50), 0.075);
  EXPECT_DOUBLE_EQ(rate(cosine, 100, 2, 0), 0.1);
  EXPECT_LT(rate(cosine, 100, 5, 99), rate(cosine, 100, 5, 0));
  const std::string constant = "profile: tf\nschedule: {kind: constant, warmup_epochs: 1}\n";
  EXPECT_DOUBLE_EQ(rate(constant, 100, 0, 50), 0.05);
  EXPECT_DOUBLE_EQ(rate(constant, 100, 80, 0), 0.1);
}

TEST(SgdParams, OfTheTfProfileDecayEverythingButBatchNormTwice) {
  const model::SgdParams tf = sgd_params(job_of("name: a\nprofile: tf\n"));
  EXPECT_FLOAT_EQ(tf.weight_decay, 2e-4F);
  EXPECT_EQ(tf.decay, model::DecayScope::kNoBatchNorm);
  EXPECT_EQ(tf.form, model::MomentumForm::kTf);
  const model::SgdParams torch = sgd_params(job_of("name: a\n"));
  EXPECT_FLOAT_EQ(torch.weight_decay, 1e-4F);
  EXPECT_EQ(torch.decay, model::DecayScope::kAll);
  EXPECT_EQ(torch.form, model::MomentumForm::kPytorch);
}

}  // namespace
}  // namespace npu::client
