// Damage of every kind is found, named and skipped; lists tell what is there.
#include <gmock/gmock.h>

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class VerifyTest : public StoreFixture {
 protected:
  VerifyTest() : sut(open_store()) {
    commit_ok(sut, old_->snapshot);
    commit_ok(sut, new_->snapshot);
  }

  // The newest one is damaged: verify names it, loading falls back to the older one.
  void expect_skipped(const char* text, const std::string& tensor = "") {
    const auto verified = sut.verify(kUid, kRun, 20);
    ASSERT_FALSE(verified.has_value());
    EXPECT_EQ(verified.error().code, Code::kDataLoss);
    EXPECT_THAT(verified.error().message, HasSubstr(text));
    const auto checkpoint = sut.open_newest_valid(kUid, kRun);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
    expect_same(*checkpoint, old_->snapshot);
    ASSERT_EQ(checkpoint->warnings.size(), 1U);
    EXPECT_EQ(checkpoint->warnings[0].step, 20U);
    EXPECT_EQ(checkpoint->warnings[0].tensor, tensor);
    EXPECT_THAT(checkpoint->warnings[0].message, HasSubstr(text));
  }

  std::unique_ptr<Staged> old_ = staged(10, 1);
  std::unique_ptr<Staged> new_ = staged(20, 2);
  CheckpointStore sut;
};

TEST_F(VerifyTest, GoodCheckpointReportsItsSize) {
  const auto report = sut.verify(kUid, kRun, 20);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->tensors, 5U);
  EXPECT_GT(report->bytes, 4800U);
}

TEST_F(VerifyTest, FlippedBitNamesItsTensor) {
  const auto file = std::filesystem::file_size(step_dir(20) + "/model.safetensors");
  flip_byte(step_dir(20) + "/model.safetensors", file - 1);  // fp16 comes last
  expect_skipped("tensor 'fc.bias' is damaged", "fc.bias");
}

TEST_F(VerifyTest, EveryFlippedByteOfTheModelFileIsFound) {
  const std::string path = step_dir(20) + "/model.safetensors";
  const auto size = std::filesystem::file_size(path);
  for (uint64_t at = 0; at < size; at += at < 700 ? 1 : 97) {
    flip_byte(path, at);
    EXPECT_FALSE(sut.verify(kUid, kRun, 20).has_value()) << "byte " << at;
    flip_byte(path, at);
  }
  EXPECT_TRUE(sut.verify(kUid, kRun, 20).has_value());
}

TEST_F(VerifyTest, DamagedStateIsFound) {
  flip_byte(step_dir(20) + "/state.json", 3);
  expect_skipped("state.json: digest");
}

TEST_F(VerifyTest, TruncatedManifestIsSkipped) {
  std::filesystem::resize_file(step_dir(20) + "/MANIFEST.json", 100);
  expect_skipped("MANIFEST.json");
}

TEST_F(VerifyTest, MissingFilesAreDamageAndNotNotFound) {
  std::filesystem::remove(step_dir(20) + "/optimizer.safetensors");
  expect_skipped("optimizer.safetensors is missing");
  std::filesystem::remove(step_dir(20) + "/MANIFEST.json");
  expect_skipped("MANIFEST.json is missing");
}

TEST_F(VerifyTest, TruncatedAndGrownFilesAreSkipped) {
  const std::string path = step_dir(20) + "/optimizer.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_skipped("the manifest says");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 2);
  expect_skipped("the manifest says");
}

TEST_F(VerifyTest, LinkedFileIsNotFollowed) {
  const std::string path = step_dir(20) + "/state.json";
  std::filesystem::rename(path, root_ + "/state.json");
  std::filesystem::create_symlink(root_ + "/state.json", path);
  EXPECT_FALSE(sut.open_step(kUid, kRun, 20).has_value());
}

TEST_F(VerifyTest, MovedDirectoryIsNotTakenForAnotherStep) {
  std::filesystem::rename(step_dir(20), step_dir(21));
  const auto checkpoint = sut.open_step(kUid, kRun, 21);
  ASSERT_FALSE(checkpoint.has_value());
  EXPECT_THAT(checkpoint.error().message, HasSubstr("the directory was moved"));
}

TEST_F(VerifyTest, NothingValidIsDataLossAndNothingThereIsNotFound) {
  flip_byte(step_dir(10) + "/state.json", 1);
  flip_byte(step_dir(20) + "/state.json", 1);
  EXPECT_EQ(sut.open_newest_valid(kUid, kRun).error().code, Code::kDataLoss);
  EXPECT_EQ(sut.open_newest_valid(kUid, "other").error().code, Code::kNotFound);
  EXPECT_EQ(sut.open_step(kUid, kRun, 11).error().code, Code::kNotFound);
  EXPECT_EQ(sut.open_newest_valid(kUid, "../1234").error().code, Code::kInvalidArgument);
}

TEST_F(VerifyTest, ListTellsStateAndOrder) {
  commit_ok(sut, [&] {
    auto s = staged(5);
    s->snapshot.run = "another";
    return sut.commit(s->snapshot).has_value() ? old_->snapshot : Snapshot{};
  }());  // step 10 again: the newest commit of its run now
  std::filesystem::resize_file(step_dir(20) + "/MANIFEST.json", 10);
  const auto all = sut.list(kUid, std::nullopt);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ((*all)[0].run, "another");
  EXPECT_TRUE((*all)[0].latest);
  EXPECT_EQ((*all)[1].step, 20U);
  EXPECT_FALSE((*all)[1].readable);
  EXPECT_THAT((*all)[1].problem, HasSubstr("MANIFEST.json"));
  EXPECT_EQ((*all)[2].step, 10U);
  EXPECT_TRUE((*all)[2].latest);
  EXPECT_EQ((*all)[2].tensors, 5U);
  EXPECT_EQ((*all)[2].weights_digest, 77U);
  EXPECT_EQ(sut.list(kUid, kRun)->size(), 2U);
  EXPECT_EQ(sut.list(kUid, "missing").error().code, Code::kNotFound);
}

TEST_F(VerifyTest, CommitAfterDamageIsStillTheNewest) {
  std::filesystem::resize_file(step_dir(20) + "/MANIFEST.json", 10);
  const auto s = staged(15);
  commit_ok(sut, s->snapshot);
  const auto checkpoint = sut.open_newest_valid(kUid, kRun);
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->manifest.step, 15U);
  EXPECT_EQ(checkpoint->manifest.sequence, 3U);
}

TEST_F(VerifyTest, RotationCountsADamagedManifestAsTheOldest) {
  std::filesystem::resize_file(step_dir(20) + "/MANIFEST.json", 10);
  auto s = staged(30);
  s->snapshot.keep = 2;
  commit_ok(sut, s->snapshot);
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-10", "step-30"));
}

}  // namespace
}  // namespace npu::daemon
