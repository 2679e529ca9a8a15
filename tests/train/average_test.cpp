// The exponential moving average of the weights over real steps.
#include "train_ranks.hpp"

namespace npu::train {
namespace {

constexpr data::ImageShape kShape{12, 12, 3};

class AverageTest : public testing::Test {
 protected:
  test::DaemonProcess daemon_;
};

TEST_F(AverageTest, IsTheRecursionOverParametersAndBuffersAndEqualOnAllRanks) {
  const config::Job job = job_of(
      "name: average\ndevices: [0, 1]\nmodel: {arch: resnet8, num_classes: 5}\n"
      "data: {format: synthetic, train_samples: 64, val_samples: 8, image_size: 12}\n"
      "train: {batch_size: 8, ema_decay: 0.75}\ncollectives: {timeout: 20s}\n");
  std::array<std::vector<float>, 2> averages;
  on_ranks(daemon_, job, [&](Replica& replica) {
    model::Network& network = replica.network();
    ASSERT_NE(replica.average(), nullptr);
    Tensors want = tensors_of(network);  // it starts at the initial weights
    GoldenBatches batches(job, kShape, 3);
    client::Stepper stepper(replica);
    for (int s = 0; s < 3; ++s) {
      ASSERT_TRUE(step(stepper, batches, s, replica, 0.05));
      for (auto& [name, values] : tensors_of(network)) {
        std::vector<float>& average = want[name];
        for (size_t i = 0; i < values.size(); ++i) {
          average[i] = 0.75F * average[i] + 0.25F * values[i];
        }
      }
    }
    const Tensors weights = tensors_of(network);

    replica.average()->swap(network);
    EXPECT_EQ(tensors_of(network), want);
    const auto flat = network.parameters_flat();
    averages[static_cast<size_t>(replica.rank())].assign(flat.begin(), flat.end());
    replica.average()->swap(network);

    EXPECT_EQ(tensors_of(network), weights);
    EXPECT_NE(want, weights);
  });
  ASSERT_FALSE(averages[0].empty());
  EXPECT_EQ(averages[0], averages[1]);
}

}  // namespace
}  // namespace npu::train
