// Commits that work, commits that are refused, torn snapshots, replacement and rotation.
#include <gmock/gmock.h>

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using CommitTest = StoreFixture;

TEST_F(CommitTest, CommittedBytesComeBackExactly) {
  auto sut = open_store();
  const auto s = staged(40, 1, 700'000);  // more than two bounce buffers

  const auto report = sut.commit(s->snapshot);

  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->path, step_dir(40));
  EXPECT_FALSE(report->replaced);
  EXPECT_TRUE(report->warnings.empty());
  const auto checkpoint = sut.open_newest_valid(kUid, kRun);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  expect_same(*checkpoint, s->snapshot);
  EXPECT_EQ(report->bytes, checkpoint->manifest.total_bytes());
  EXPECT_EQ(slurp(run_dir() + "/LATEST"), "step-40\n");
  EXPECT_THAT(names(step_dir(40)), ElementsAre("MANIFEST.json", "model.safetensors",
                                               "optimizer.safetensors", "state.json"));
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-40"));
}

TEST_F(CommitTest, DescriptorsAreReadOnly) {
  auto sut = open_store();
  commit_ok(sut, staged(1)->snapshot);
  const auto checkpoint = sut.open_step(kUid, kRun, 1);
  ASSERT_TRUE(checkpoint.has_value());
  for (const auto& file : checkpoint->files) {
    EXPECT_EQ(::fcntl(file.fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY) << file.name;
  }
}

TEST_F(CommitTest, SameStepAgainReplacesIt) {
  for (const bool rename_flags : {true, false}) {
    FaultyOps ops;
    ops.rename_flags = rename_flags;
    auto sut = open_store(&ops);
    commit_ok(sut, staged(40, 1)->snapshot);
    const auto second = staged(40, 2);
    const auto report = sut.commit(second->snapshot);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_TRUE(report->replaced);
    const auto checkpoint = sut.open_newest_valid(kUid, kRun);
    ASSERT_TRUE(checkpoint.has_value());
    expect_same(*checkpoint, second->snapshot);
    EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-40"));
  }
}

TEST_F(CommitTest, KeepsTheLastN) {
  auto sut = open_store();
  for (const uint64_t step : {1U, 2U, 3U, 4U}) {
    auto s = staged(step);
    s->snapshot.keep = 2;
    commit_ok(sut, s->snapshot);
  }
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-3", "step-4"));
}

TEST_F(CommitTest, ProtectedStepsOutliveRotation) {
  auto sut = open_store();
  for (const uint64_t step : {1U, 2U, 3U}) {
    auto s = staged(step);
    s->snapshot.keep = 1;
    s->snapshot.protect_steps = {1};
    commit_ok(sut, s->snapshot);
  }
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-1", "step-3"));
}

TEST_F(CommitTest, ALowerStepCommittedLaterIsTheNewest) {
  auto sut = open_store();
  commit_ok(sut, staged(1000)->snapshot);
  auto s = staged(50);  // the run was started again from scratch under the same name
  s->snapshot.keep = 1;
  const auto report = sut.commit(s->snapshot);
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->removed_steps, ElementsAre(1000));
  const auto checkpoint = sut.open_newest_valid(kUid, kRun);
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->manifest.step, 50U);
}

TEST_F(CommitTest, WrongDeclaredDigestIsATornSnapshot) {
  auto sut = open_store();
  const auto before = staged(1);
  commit_ok(sut, before->snapshot);
  auto s = staged(2);
  s->snapshot.optimizer[0].xxh3_64 ^= 1;
  const auto report = sut.commit(s->snapshot);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::kDataLoss);
  EXPECT_THAT(report.error().message,
              StartsWith("torn snapshot: tensor 'conv1.weight' changed while it was written"));
  EXPECT_THAT(names(run_dir()), ElementsAre("LATEST", "step-1"));
}

// A client that trains into its staged area: the source changes after the first piece was copied.
class TearingOps final : public FaultyOps {
 public:
  std::span<float> source;
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    if (!source.empty()) source.back() += 1.0F;
    return FaultyOps::write(fd, bytes);
  }
};

TEST_F(CommitTest, SourceThatChangesDuringTheWriteIsNotPublished) {
  TearingOps ops;
  auto sut = open_store(&ops);
  const auto s = staged(2, 0, 600'000);
  ops.source = s->weight;
  const auto report = sut.commit(s->snapshot);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, StartsWith("torn snapshot: tensor 'conv1.weight'"));
  EXPECT_THAT(names(run_dir()), ElementsAre());
  EXPECT_EQ(sut.open_newest_valid(kUid, kRun).error().code, Code::kNotFound);
}

// The copy that went to disk counts, not what the source holds by the time somebody looks again.
class RestoringOps final : public FaultyOps {
 public:
  std::span<float> source;
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    if (!source.empty()) source.front() = 0.0F;
    return FaultyOps::write(fd, bytes);
  }
};

TEST_F(CommitTest, SourceThatIsPutRightAfterTheCopyIsStillTorn) {
  RestoringOps ops;
  auto sut = open_store(&ops);
  const auto s = staged(2, 0, 600'000);  // declared with a first element of 0
  ops.source = s->weight;
  s->weight.front() = 1.0F;
  const auto report = sut.commit(s->snapshot);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(s->weight.front(), 0.0F);
  EXPECT_THAT(report.error().message, StartsWith("torn snapshot: tensor 'conv1.weight'"));
}

TEST_F(CommitTest, BadSnapshotsAreRefusedBeforeAnythingIsTouched) {
  auto sut = open_store();
  const auto expect_refused = [&](auto change, const char* text) {
    auto s = staged(1);
    change(s->snapshot);
    const auto report = sut.commit(s->snapshot);
    ASSERT_FALSE(report.has_value()) << text;
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
    EXPECT_THAT(report.error().message, HasSubstr(text));
  };
  expect_refused([](Snapshot& s) { s.run = "../etc"; }, "run name");
  expect_refused([](Snapshot& s) { s.run = ".."; }, "run name");
  expect_refused([](Snapshot& s) { s.keep = 0; }, "keep is 0");
  expect_refused([](Snapshot& s) { s.model[0].shape = {601}; }, "need 2404");
  expect_refused([](Snapshot& s) { s.model[0].shape = {1ULL << 63, 4}; }, "64 bits");
  expect_refused([](Snapshot& s) { s.model[0].dtype = static_cast<DType>(99); },
                 "unknown dtype 99");
  expect_refused([](Snapshot& s) { s.model[1].name = "conv1.weight"; }, "given twice");
  expect_refused([](Snapshot& s) { s.model[0].name = "\xff"; }, "UTF-8");
  expect_refused([](Snapshot& s) { s.state_json.resize(kMaxStateJsonBytes + 1); }, "state");
  EXPECT_THAT(names(state_dir()), ElementsAre());
}

TEST_F(CommitTest, RunHeldByAnotherDaemonIsUnavailable) {
  auto sut = open_store();
  commit_ok(sut, staged(1)->snapshot);
  const UniqueFd other(::open(run_dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(FileOps::system().try_lock(other.get()), 0);
  const auto report = sut.commit(staged(2)->snapshot);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::kUnavailable);
  EXPECT_THAT(report.error().message, HasSubstr("another daemon"));
}

TEST_F(CommitTest, LinkInPlaceOfARunIsNotFollowed) {
  auto sut = open_store();
  std::filesystem::create_directories(state_dir() + "/1234");
  std::filesystem::create_directories(root_ + "/elsewhere");
  std::filesystem::create_directory_symlink(root_ + "/elsewhere", run_dir());
  EXPECT_FALSE(sut.commit(staged(1)->snapshot).has_value());
  EXPECT_THAT(names(root_ + "/elsewhere"), ElementsAre());
}

TEST_F(CommitTest, UsersDoNotSeeEachOther) {
  auto sut = open_store();
  commit_ok(sut, staged(1)->snapshot);
  EXPECT_EQ(sut.open_newest_valid(kUid + 1, kRun).error().code, Code::kNotFound);
  EXPECT_TRUE(sut.list(kUid + 1, std::nullopt)->empty());
}

TEST_F(CommitTest, DirectoriesArePrivate) {
  auto sut = open_store();
  commit_ok(sut, staged(1)->snapshot);
  for (const auto& dir : {state_dir(), run_dir(), step_dir(1)}) {
    EXPECT_EQ(std::filesystem::status(dir).permissions(), std::filesystem::perms::owner_all) << dir;
  }
}

TEST_F(CommitTest, WorldWritableStateDirectoryIsRefused) {
  std::filesystem::create_directories(state_dir());
  std::filesystem::permissions(state_dir(), std::filesystem::perms::all);
  const auto sut = CheckpointStore::open(state_dir());
  ASSERT_FALSE(sut.has_value());
  EXPECT_EQ(sut.error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace npu::daemon
