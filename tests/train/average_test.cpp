// The exponential moving average of the weights over real steps.
#include "train_ranks.hpp"

namespace npu::train {
namespace {

class AverageTest : public TrainTest {};

TEST_F(AverageTest, IsTheRecursionOverParametersAndBuffersAndEqualOnAllRanks) {
  const config::Job job = small_job({.train = ", ema_decay: 0.75"});
  std::array<std::vector<float>, 2> averages;
  on_ranks(daemon_, job, [&](Replica& replica) {
    model::Network& network = replica.network();
    ASSERT_NE(replica.average(), nullptr);
    Tensors want = tensors_of(network);  // it starts at the initial weights
    GoldenBatches batches(job, 3);
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
