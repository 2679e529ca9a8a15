// Batch statistics over all ranks: the same global batch trains the same weights on any number of
// them, and a rank that leaves in the middle of a layer is an error, not a wrong number.
#include <cstdio>

#include "train_ranks.hpp"

namespace npu::train {
namespace {

config::Job job_with(const std::string& devices, const std::string& sync_bn) {
  return small_job({.devices = devices,
                    .batch = 16,
                    .model = ", sync_bn: " + sync_bn,
                    .collectives = ", bucket_bytes: 64KiB",
                    .more = "optimizer: {weight_decay: 1.0e-3}\n"});
}

class SyncBnTest : public TrainTest {};

TEST_F(SyncBnTest, AnyNumberOfRanksTrainsAsPytorchDoesOnOne) {
  const golden::Golden want =
      golden::read_golden(std::string(NPU_GOLDEN_DIR) + "/recipe_sync_bn.golden");
  ASSERT_EQ(want.losses.size(), 6u);
  const std::vector<double> rates(6, 0.02);
  for (const char* devices : {"0", "0-1", "0-3"}) {
    Tensors got;
    const auto losses = train_golden(daemon_, job_with(devices, "true"), rates, got);
    ASSERT_EQ(losses.size(), 6u);
    for (size_t s = 0; s < 6; ++s) EXPECT_NEAR(losses[s], want.losses[s], 1e-4 * want.losses[s]);
    const double worst = distance(got, want, true);
    std::printf("devices %s: largest relative difference of a tensor: %.1e\n", devices, worst);
    EXPECT_LE(worst, 1e-4) << devices;
  }
  // With statistics of its own each rank is somewhere else: the test can tell.
  Tensors local;
  train_golden(daemon_, job_with("0-1", "false"), rates, local);
  EXPECT_GT(distance(local, want), 1e-3);
}

TEST_F(SyncBnTest, RankThatLeavesEndsTheStepOfTheOthersWithAnError) {
  const config::Job job = job_with("0-1", "true");
  on_ranks(
      daemon_, job,
      [&](Replica& replica) {
        if (replica.rank() == 1) return;  // its replica goes, and the device with it
        GoldenBatches batches(job, 1);
        client::Stepper sut(replica);
        const auto pass = sut.pass(batches.of(0, 0, 0));
        ASSERT_FALSE(pass);
        EXPECT_FALSE(pass.error().message.empty());
      },
      false);
}

}  // namespace
}  // namespace npu::train
