// The numeric profiles on real ranks: tf against its rules written out in numpy, and what both
// profiles have in common.
#include <cstdio>

#include "client/train/recipe.hpp"
#include "client/train/stepper.hpp"
#include "train_ranks.hpp"

namespace npu::train {
namespace {

config::Job job_with(const std::string& devices, int batch, const std::string& more) {
  return small_job(
      {.devices = devices, .batch = batch, .collectives = ", bucket_bytes: 64KiB", .more = more});
}

class ProfileTest : public TrainTest {};

TEST_F(ProfileTest, TfMatchesItsRulesInNumpyAcrossDropsOfTheRate) {
  const golden::Golden want =
      golden::read_golden(std::string(NPU_GOLDEN_DIR) + "/recipe_tf.golden");
  ASSERT_EQ(want.losses.size(), 12u);
  const config::Job job =
      job_with("0-1", 8,
               "profile: tf\noptimizer: {lr: 0.04, weight_decay: 1.0e-3}\n"
               "schedule: {kind: multistep, milestones: [2, 3], warmup_epochs: 1}\n");
  const auto rate = client::LearningRate::of(job, 3);
  ASSERT_TRUE(rate);
  std::vector<double> rates;
  for (int s = 0; s < 12; ++s) rates.push_back(rate->at(s / 3, s % 3));

  Tensors got;
  const std::vector<double> losses = train_golden(daemon_, job, rates, got);

  ASSERT_EQ(losses.size(), 12u);
  for (size_t s = 0; s < 12; ++s) EXPECT_NEAR(losses[s], want.losses[s], 1e-4 * want.losses[s]);
  const double worst = distance(got, want);
  std::printf("largest relative difference of a tensor: %.1e\n", worst);
  EXPECT_LE(worst, 1e-4);

  // The same with the other profile's momentum and decay is somewhere else: the test can tell.
  config::Job other = job;
  other.profile = config::Profile::kPytorch;
  train_golden(daemon_, other, rates, got);
  EXPECT_GT(distance(got, want), 1e-3);
}

TEST_F(ProfileTest, BothProfilesGiveTheSameGradient) {
  // Without decay the first step is the gradient times the rate in either form; shares of a power
  // of two scale exactly.
  const std::string plain = "optimizer: {lr: 0.5, momentum: 0.9, weight_decay: 0}\n";
  for (const char* devices : {"0", "0-1", "0-3"}) {
    Tensors torch, tf;
    const auto one = train_golden(daemon_, job_with(devices, 16, plain), {0.5}, torch);
    const auto other =
        train_golden(daemon_, job_with(devices, 16, "profile: tf\n" + plain), {0.5}, tf);
    ASSERT_FALSE(torch.empty());
    EXPECT_EQ(torch, tf) << devices;
    EXPECT_EQ(one, other) << "the loss shown is the mean over the job";
  }
}

TEST_F(ProfileTest, TfDecayDoesNotDependOnTheNumberOfRanks) {
  // Saturated logits: probability 1 for the label, 0 for the others, so the data's gradient is 0.
  const std::vector<float> bias = {1000, 0, 0, 0, 0};
  std::vector<Tensors> after(4);
  Tensors before;
  const std::array<const char*, 4> devices = {"0", "0-1", "0-3", "0-7"};
  for (size_t i = 0; i < devices.size(); ++i) {
    const config::Job job =
        job_with(devices[i], 16, "profile: tf\noptimizer: {lr: 0.5, weight_decay: 0.01}\n");
    on_ranks(daemon_, job, [&](Replica& replica) {
      model::Network& network = replica.network();
      golden::fill(network);
      const size_t fc = network.state().size() - 2;
      network.import_state(fc, std::vector<float>(network.state()[fc].count));
      network.import_state(fc + 1, bias);
      if (replica.rank() == 0) before = tensors_of(network);
      GoldenBatches batches(job, 1);
      data::Batch batch = batches.of(0, replica.rank(), 0);
      std::fill_n(batch.labels, batch.n, 0);
      client::Stepper sut(replica);
      ASSERT_TRUE(sut.pass(batch));
      ASSERT_TRUE(sut.finish(0.5));
      Tensors weights = tensors_of(network);
      std::erase_if(weights,
                    [](const auto& t) { return t.first.find("running") != std::string::npos; });
      if (replica.rank() == 0) after[i] = weights;
    });
    EXPECT_EQ(after[i], after[0]) << devices[i];
  }
  // w - 0.5 * 2 * 0.01 * w, batch norm left alone.
  ASSERT_FALSE(after[0].empty());
  for (const auto& [name, values] : after[0]) {
    const bool norm = name.find("bn") != std::string::npos;
    for (size_t k = 0; k < values.size(); ++k) {
      EXPECT_FLOAT_EQ(values[k], (norm ? 1.0F : 0.99F) * before[name][k]) << name;
    }
  }
}

}  // namespace
}  // namespace npu::train
