// Whole jobs: beside each other, interrupted, their files and the numbers they report.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/e2e/e2e_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kEndless = {"train.epochs=100000", "devices=0-1"};

// hiyouga/LlamaFactory#9330, vllm-project/vllm-ascend#405 (EJ0003), PR#16205 (EI0019): the second
// job collides with the first one's port.
class B8 : public E2eTest {
 protected:
  /// A second job trains from start to end while the first one trains.
  void expect_both_train(const std::vector<std::string>& second) {
    Background first(env_, job("first"), kEndless);
    ASSERT_THAT(first.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
    const Outcome got = launch(second);
    EXPECT_EQ(got.code, 0) << got.err;
    EXPECT_THAT(first.read_until("\"type\":\"step\""), HasSubstr("\"type\":\"step\""));
    first.kill(SIGTERM);
    first.wait();
  }
};

TEST_F(B8, JobsOnOtherDevicesShareADaemon) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  expect_both_train({"train.epochs=1", "devices=2-3"});
}

TEST_F(B8, JobsWithoutADaemonBringTheirOwn) {
  expect_both_train({"train.epochs=1", "devices=0-1"});
}

// NVIDIA/apex#886, pytorch/examples PR#462, kakaobrain/scrl#5: several processes write one file.
using B24 = E2eTest;

TEST_F(B24, RanksHoldNoFileOfTheStore) {
  Background sut(env_, job(), {"train.epochs=100000", "checkpoint.every_steps=1"});
  ASSERT_THAT(sut.read_until("\"type\":\"checkpoint\""), HasSubstr("\"type\":\"checkpoint\""));
  const auto ranks = sut.children("train");
  ASSERT_EQ(ranks.size(), 4u);
  for (const pid_t rank : ranks) {
    for (const auto& fd :
         std::filesystem::directory_iterator("/proc/" + std::to_string(rank) + "/fd")) {
      std::error_code closed_meanwhile;
      const std::string path = std::filesystem::read_symlink(fd.path(), closed_meanwhile);
      EXPECT_FALSE(path.starts_with(root_ + "/state")) << path;
    }
  }
  sut.kill(SIGTERM);
  sut.wait();
  EXPECT_EQ(npu({"ckpt", "verify", "tiny"}).code, 0);
}

// pytorch/pytorch#36136, #4293, #12166: Ctrl-C leaves workers and zombies.
using B26 = E2eTest;

TEST_F(B26, InterruptLeavesNoProcessAndNoHeldDevice) {
  const test::DaemonProcess daemon;
  use_daemon(daemon.socket());
  Background sut(env_, job(), kEndless);
  ASSERT_THAT(sut.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
  const auto ranks = sut.children("train");
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_THAT(npu({"info", "-o", "json"}).out, HasSubstr("\"state\":\"busy\""));

  sut.kill(SIGINT);

  EXPECT_EQ(sut.wait(), 80);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << rank;
  EXPECT_THAT(processes_with(root_), IsEmpty());
  EXPECT_TRUE(holds_within(milliseconds(2000), [&] {
    return npu({"info", "-o", "json"}).out.find("\"state\":\"busy\"") == std::string::npos;
  }));
}

// kuangliu/pytorch-cifar#116, ultralytics/yolov5#292: the rate restarts and another full count of
// epochs is trained after a resume. pytorch/pytorch#160626, akamaster/pytorch_resnet_cifar10 PR#14:
// the resume fails because the initial rate is missing.
using B23 = E2eTest;

TEST_F(B23, RatesAndEpochsGoOnWhereTheyWere) {
  const std::vector<std::string> cosine = {"train.epochs=3", "schedule.kind=cosine",
                                           "schedule.per_step=true", "schedule.warmup_epochs=1"};
  const auto rates = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> sets = cosine;
    sets.push_back("name=" + name);
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome got = launch(sets);
    EXPECT_EQ(got.code, 0) << got.err;
    std::vector<double> all;
    for (const client::Event& event : events_of(got.out)) {
      if (const auto* step = std::get_if<client::StepEvent>(&event)) all.push_back(step->lr);
    }
    return all;
  };
  const auto want = rates("straight", {});
  auto got = rates("broken", {"train.stop_after_steps=5"});
  const auto middle = rates("broken", {"train.stop_after_steps=17"});
  const auto rest = rates("broken", {});
  got.insert(got.end(), middle.begin(), middle.end());
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(want.size(), 24u);
  EXPECT_EQ(got, want);
}

// pytorch/examples#816, #1420, PR#1118: the learning rate on the command line is ignored after a
// resume, in silence.
using B41 = E2eTest;

TEST_F(B41, NewRateIsIgnoredAloudUntilItMayBeTaken) {
  ASSERT_EQ(launch({"train.stop_after_steps=3"}).code, 0);
  const Outcome ignored =
      npu({"launch", job(), "--set", "optimizer.lr=0.5", "--set", "train.stop_after_steps=5"});
  ASSERT_EQ(ignored.code, 0) << ignored.err;
  EXPECT_THAT(ignored.out,
              HasSubstr("warning: optimizer.lr 0.05 -> 0.5 (ignored; checkpoint.resume_override: "
                        "[lr] applies it)"));
  EXPECT_THAT(ignored.out, HasSubstr("Lr 0.05"));
  const Outcome taken = npu(
      {"launch", job(), "--set", "optimizer.lr=0.5", "--set", "checkpoint.resume_override=[lr]"});
  ASSERT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.out, HasSubstr("\noptimizer.lr 0.05 -> 0.5 (checkpoint.resume_override)"));
  EXPECT_THAT(taken.out, HasSubstr("Lr 0.5"));
}

// tensorflow/models#11074: the loss that is reported is a fraction of the real one.
using B31 = E2eTest;

TEST_F(B31, LossOfAnUntrainedNetworkIsTheLogarithmOfTheClasses) {
  for (const char* profile : {"pytorch", "tf"}) {
    const Outcome got = launch({std::string("profile=") + profile, "train.epochs=1",
                                "optimizer.lr=1e-12", "checkpoint.resume=never"});
    ASSERT_EQ(got.code, 0) << got.err;
    const auto epoch = last<client::EpochEvent>(events_of(got.out));
    ASSERT_TRUE(epoch);
    // Divided by the four ranks once more it would be 0.6.
    EXPECT_NEAR(epoch->train_loss, std::log(10), 1) << profile;
    EXPECT_NEAR(epoch->val_loss, std::log(10), 1) << profile;
  }
}

}  // namespace
}  // namespace npu::e2e
