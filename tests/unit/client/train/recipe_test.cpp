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

// The published schedules, in the words of a job file.
TEST(LearningRate, TorchvisionCosineGolden) {
  const std::string text =
      "train: {epochs: 600}\noptimizer: {lr: 0.5}\nschedule: {kind: cosine, warmup_epochs: 5}\n";
  EXPECT_NEAR(rate(text, 7, 0, 6), 0.005, 1e-15);
  EXPECT_NEAR(rate(text, 7, 1, 0), 0.104, 1e-15);
  EXPECT_NEAR(rate(text, 7, 4, 0), 0.401, 1e-15);
  EXPECT_NEAR(rate(text, 7, 5, 0), 0.5, 1e-15);
  EXPECT_NEAR(rate(text, 7, 6, 3), 0.4999965152243937, 1e-13);
  EXPECT_NEAR(rate(text, 7, 300, 0), 0.25329989645268974, 1e-13);
  EXPECT_NEAR(rate(text, 7, 599, 6), 3.484775606299451e-6, 1e-13);
}

TEST(LearningRate, NvidiaCosineGolden) {
  const std::string text =
      "train: {epochs: 90}\noptimizer: {lr: 2.048}\n"
      "schedule: {kind: cosine, warmup_epochs: 8, warmup_form: next}\n";
  EXPECT_NEAR(rate(text, 7, 0, 0), 0.256, 1e-12);
  EXPECT_NEAR(rate(text, 7, 7, 0), 2.048, 1e-12);
  EXPECT_NEAR(rate(text, 7, 8, 0), 2.048, 1e-12);
  EXPECT_NEAR(rate(text, 7, 9, 0), 2.0472485694, 1e-10);
  EXPECT_NEAR(rate(text, 7, 50, 0), 0.9847780007, 1e-10);
  EXPECT_NEAR(rate(text, 7, 89, 6), 0.0007514306, 1e-10);
}

TEST(LearningRate, TensorflowPiecewiseGolden) {
  const std::string text =
      "profile: tf\ntrain: {epochs: 90, batch_size: 256}\noptimizer: {lr: 0.1}\n"
      "schedule: {kind: multistep, warmup_epochs: 5, milestones: [30, 60, 80]}\n";
  EXPECT_DOUBLE_EQ(rate(text, 5004, 0, 0), 0);
  EXPECT_DOUBLE_EQ(rate(text, 5004, 2, 2502), 0.05);  // step 12510
  EXPECT_DOUBLE_EQ(rate(text, 5004, 5, 0), 0.1);      // step 25020
  EXPECT_DOUBLE_EQ(rate(text, 5004, 30, 0), 0.1);     // step 150120
  EXPECT_DOUBLE_EQ(rate(text, 5004, 30, 1), 0.01);    // step 150121
  EXPECT_DOUBLE_EQ(rate(text, 5004, 60, 1), 0.001);   // step 300241
  EXPECT_DOUBLE_EQ(rate(text, 5004, 80, 1), 0.0001);  // step 400321
}

TEST(LearningRate, WarmupAndEndAreTheJobs) {
  const std::string linear =
      "train: {epochs: 12}\noptimizer: {lr: 0.4}\n"
      "schedule: {kind: linear, warmup_epochs: 2, warmup_start: 0.5, end_lr: 0.1, per_step: "
      "true}\n";
  EXPECT_DOUBLE_EQ(rate(linear, 10, 0, 0), 0.2);
  EXPECT_DOUBLE_EQ(rate(linear, 10, 1, 0), 0.3);
  EXPECT_DOUBLE_EQ(rate(linear, 10, 2, 0), 0.4);
  EXPECT_DOUBLE_EQ(rate(linear, 10, 7, 0), 0.25);
  EXPECT_DOUBLE_EQ(rate(linear, 10, 7, 5), 0.235);
  const std::string exponential =
      "optimizer: {lr: 0.4}\nschedule: {kind: exponential, gamma: 0.5}\n";
  EXPECT_DOUBLE_EQ(rate(exponential, 10, 0, 9), 0.4);
  EXPECT_DOUBLE_EQ(rate(exponential, 10, 3, 0), 0.05);
  const std::string first =
      "schedule: {kind: constant, warmup_epochs: 1, warmup_form: constant, warmup_start: 0.1}\n";
  EXPECT_DOUBLE_EQ(rate(first, 10, 0, 9), 0.01);
  EXPECT_DOUBLE_EQ(rate(first, 10, 1, 0), 0.1);
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
