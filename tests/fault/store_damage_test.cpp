// F36 and F37: what is damaged on the disk is stepped over, with the tensor's name; a snapshot that
// changes while it is written is no checkpoint. And who keeps which checkpoints.
#include <thread>

#include "store_fixture.hpp"

namespace npu::fault {
namespace {

using testing::HasSubstr;

class DamageTest : public StoreFaultTest {
 protected:
  void commit_three() {
    TinyRun run(daemon_.socket());
    for (int i = 1; i <= 3; ++i) commit_ok(run, 10 * i, i);
  }
  [[nodiscard]] std::string file(int step, const std::string& name) const {
    return run_dir() + "/step-" + std::to_string(step) + "/" + name;
  }
  static void flip_bit(const std::string& path, int64_t from_end) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(-from_end, std::ios::end);
    const auto at = file.tellg();
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x04));
    ASSERT_TRUE(file.good()) << path;
  }
};

TEST_F(DamageTest, FlippedBitIsSteppedOverWithTheTensorsName) {
  commit_three();
  flip_bit(file(30, "model.safetensors"), 1'000'000);
  EXPECT_THAT(expect_checkpoint(client::kNewestStep, 20, 2),
              HasSubstr("run 'tiny' step 30: model.safetensors: tensor 'conv1.weight' is damaged"));
  const auto damaged = client::open_checkpoint(daemon_.socket(), "tiny", 30);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().exit, Exit::kBadData);
  EXPECT_THAT(damaged.error().message, HasSubstr("tensor 'conv1.weight' is damaged"));
}

TEST_F(DamageTest, TruncatedManifestAndMissingFileAreSteppedOverBoth) {
  commit_three();
  std::filesystem::resize_file(file(30, "MANIFEST.json"), 100);
  std::filesystem::remove(file(20, "optimizer.safetensors"));
  const std::string said = expect_checkpoint(client::kNewestStep, 10, 1);
  EXPECT_THAT(said, HasSubstr("run 'tiny' step 30: MANIFEST.json"));
  EXPECT_THAT(said, HasSubstr("run 'tiny' step 20: optimizer.safetensors is missing"));
}

TEST_F(DamageTest, NothingValidIsAnErrorThatNamesTheFirst) {
  commit_three();
  for (const int step : {10, 20, 30}) std::filesystem::resize_file(file(step, "state.json"), 3);
  const auto none = client::open_checkpoint(daemon_.socket(), "tiny", client::kNewestStep);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit, Exit::kBadData);
  EXPECT_THAT(none.error().message, HasSubstr("3 checkpoints and none is valid"));
  // A commit works all the same; nobody knows how new the damaged ones were, so they are named.
  TinyRun run(daemon_.socket());
  commit_ok(run, 40, 4);
  EXPECT_THAT(expect_checkpoint(client::kNewestStep, 40, 4), HasSubstr("step 30: state.json"));
}

TEST_F(DamageTest, TrainingIntoTheStagedAreaIsATornSnapshot) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1);
  }
  restart("ckpt.after_mkdir=stop");
  TinyRun run(daemon_.socket());
  auto report = run.commit(20, 2);
  ASSERT_TRUE(holds_soon([&] { return state_of(daemon_.pid()) == 'T'; }));
  run.weight()[TinyRun::kElements / 2] += 1;
  ASSERT_EQ(::kill(daemon_.pid(), SIGCONT), 0);

  const auto torn = report.get();
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().exit, Exit::kBadData);
  EXPECT_THAT(torn.error().message, HasSubstr("torn snapshot: tensor 'conv1.weight' changed"));
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10"));
  expect_checkpoint(client::kNewestStep, 10, 1);
  commit_ok(run, 30, 3);
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 30, 3), "");
}

TEST_F(DamageTest, TwoRunsAtOnceDoNotMix) {
  const auto train = [&](const std::string& name, uint32_t device, int salt) {
    TinyRun run(daemon_.socket(), name, device);
    ASSERT_TRUE(run.attached());
    for (int i = 1; i <= 5; ++i) {
      const auto report = run.commit(i, salt + i).get();
      ASSERT_TRUE(report) << report.error().message;
    }
  };
  std::thread other([&] { train("other", 1, 100); });
  train("tiny", 0, 0);
  other.join();
  for (int i = 3; i <= 5; ++i) {
    expect_checkpoint(i, i, i);
    expect_checkpoint(i, i, 100 + i, "other");
  }
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-3", "step-4", "step-5"));
  EXPECT_THAT(names("other"), testing::ElementsAre("LATEST", "step-3", "step-4", "step-5"));
}

TEST_F(DamageTest, ANameUsedAgainFromTheStartHasTheNewerCheckpoints) {
  commit_three();
  TinyRun again(daemon_.socket());
  commit_ok(again, 5, 7, {.keep = 2});
  EXPECT_EQ(expect_checkpoint(client::kNewestStep, 5, 7), "");
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-30", "step-5"));
  commit_ok(again, 6, 8, {.keep = 2});
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-5", "step-6"));
}

TEST_F(DamageTest, KeepOneNeverDropsTheLastGoodOneForAFailure) {
  if (!has_failpoints()) GTEST_SKIP() << "built without failpoints";
  {
    TinyRun run(daemon_.socket());
    commit_ok(run, 10, 1, {.keep = 1});
  }
  restart("ckpt.fsync=errno:EIO@8");
  TinyRun run(daemon_.socket());
  ASSERT_FALSE(run.commit(20, 2, {.keep = 1}).get());
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-10"));
  expect_checkpoint(client::kNewestStep, 10, 1);
  commit_ok(run, 30, 3, {.keep = 1});
  EXPECT_THAT(names(), testing::ElementsAre("LATEST", "step-30"));
}

}  // namespace
}  // namespace npu::fault
