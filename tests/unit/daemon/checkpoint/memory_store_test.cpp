// Checkpoints in memory: the bytes, the seals, who may keep how much, and how long.
#include "daemon/checkpoint/memory_store.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "store_fixture.hpp"

namespace npu::daemon {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class MemoryStoreTest : public StoreFixture {
 protected:
  static void keep_ok(MemoryStore& store, const Snapshot& snapshot, uint64_t sequence = 1) {
    const auto report = store.commit(snapshot, sequence);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->path, "memory:" + snapshot.run + "/step-" + std::to_string(snapshot.step));
  }
  static bool never(uid_t, const std::string&) { return false; }
  static bool always(uid_t, const std::string&) { return true; }

  MemoryStore sut_{{.bytes_of_uid = 64 << 10}};
};

TEST_F(MemoryStoreTest, CommittedOneOpensWithEveryByte) {
  const auto s = staged(40);
  keep_ok(sut_, s->snapshot, 7);
  const auto kept = sut_.find(kUid, kRun);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->manifest.sequence, 7u);
  const auto opened = open_verified(*kept);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->path, "memory:resnet20/step-40");
  expect_same(*opened, s->snapshot);
}

TEST_F(MemoryStoreTest, FilesCannotBeChangedByWhoeverGetsThem) {
  keep_ok(sut_, staged(40)->snapshot);
  auto opened = open_verified(*sut_.find(kUid, kRun));
  ASSERT_TRUE(opened);
  for (const OpenFile& file : opened->files) {
    EXPECT_EQ(::pwrite(file.fd.get(), "x", 1, 0), -1) << file.name;
    EXPECT_EQ(::ftruncate(file.fd.get(), 0), -1) << file.name;
    EXPECT_EQ(::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0), MAP_FAILED)
        << file.name;
  }
}

TEST_F(MemoryStoreTest, NewerOneReplacesTheOlderWhoseReadersKeepIt) {
  const auto first = staged(40, 1), second = staged(43, 2);
  keep_ok(sut_, first->snapshot);
  const auto older = open_verified(*sut_.find(kUid, kRun));
  keep_ok(sut_, second->snapshot);
  EXPECT_THAT(sut_.all_of(kUid), SizeIs(1));
  expect_same(*open_verified(*sut_.find(kUid, kRun)), second->snapshot);
  expect_same(*older, first->snapshot);
}

TEST_F(MemoryStoreTest, TornSnapshotIsRefusedAndTheOlderOneStays) {
  const auto first = staged(40, 1), torn = staged(43, 2);
  keep_ok(sut_, first->snapshot);
  torn->weight[5] += 1;
  const auto report = sut_.commit(torn->snapshot, 1);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kDataLoss);
  EXPECT_THAT(report.error().message, HasSubstr("torn snapshot: tensor 'conv1.weight'"));
  expect_same(*open_verified(*sut_.find(kUid, kRun)), first->snapshot);
}

TEST_F(MemoryStoreTest, DamagedMemoryIsFoundWithTheTensorsName) {
  keep_ok(sut_, staged(40)->snapshot);
  const auto good = sut_.find(kUid, kRun);
  MemoryCheckpoint bad{.manifest = good->manifest};
  for (const OpenFile& file : good->files) {
    std::vector<std::byte> bytes(file.size_bytes);
    ASSERT_TRUE(pread_all(file.fd.get(), bytes, 0, file.name));
    if (file.name == kModelFile) bytes[bytes.size() - 100] ^= std::byte{4};
    UniqueFd copy(::memfd_create("copy", MFD_CLOEXEC));
    ASSERT_TRUE(write_all(copy.get(), bytes, file.name));
    bad.files.push_back({file.name, std::move(copy), file.size_bytes});
  }
  const auto opened = open_verified(bad);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_THAT(opened.error().message, HasSubstr("memory:resnet20/step-40: model.safetensors: "
                                                "tensor 'conv1.weight' is damaged"));
}

TEST_F(MemoryStoreTest, OneUsersBytesAreBoundedAndAnothersDoNotCount) {
  auto s = staged(40, 0, 4000);  // 32 KB and more
  keep_ok(sut_, s->snapshot);
  EXPECT_TRUE(sut_.admit(kUid, kRun, 60 << 10)) << "it would be replaced";
  const auto refused = sut_.admit(kUid, "another", 60 << 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("60.0 KiB are wanted, uid 1234 keeps 3"));
  EXPECT_THAT(refused.error().message, HasSubstr("the limit is 64.0 KiB"));
  EXPECT_TRUE(sut_.admit(kUid + 1, "another", 60 << 10));
  EXPECT_FALSE(sut_.admit(kUid + 1, "another", 65 << 10));
}

TEST_F(MemoryStoreTest, RunsAreBounded) {
  MemoryStore sut({.bytes_of_uid = 1 << 20, .runs_of_uid = 2, .runs = 3});
  const auto s = staged(1);
  for (const auto& [uid, run] : {std::pair{1u, "a"}, {1u, "b"}, {2u, "a"}}) {
    ASSERT_TRUE(sut.admit(uid, run, 1));
    s->snapshot.uid = uid;
    s->snapshot.run = run;
    keep_ok(sut, s->snapshot);
  }
  EXPECT_FALSE(sut.admit(1, "c", 1)) << "two of this user";
  EXPECT_FALSE(sut.admit(2, "b", 1)) << "three in all";
  EXPECT_TRUE(sut.admit(1, "b", 1)) << "it has one";
}

TEST_F(MemoryStoreTest, ExpiresOnlyWhenNoRunUsedItForItsLife) {
  MemoryStore sut({.bytes_of_uid = 1 << 20, .life = std::chrono::minutes(10)});
  keep_ok(sut, staged(40)->snapshot);
  const auto start = Clock::now();
  EXPECT_THAT(sut.expire(start + std::chrono::hours(5), always), IsEmpty());
  EXPECT_THAT(sut.expire(start + std::chrono::hours(5) + std::chrono::minutes(9), never),
              IsEmpty());
  EXPECT_NE(sut.find(kUid, kRun), nullptr);
  EXPECT_THAT(sut.expire(start + std::chrono::hours(5) + std::chrono::minutes(10), never),
              SizeIs(1));
  EXPECT_EQ(sut.find(kUid, kRun), nullptr);
}

TEST_F(MemoryStoreTest, IsNewerThanTheDiskUntilTheDisksNextCommit) {
  auto disk = open_store();
  EXPECT_EQ(disk.upcoming_sequence(kUid, kRun), 1u) << "the run has no directory";
  commit_ok(disk, staged(40)->snapshot);
  keep_ok(sut_, staged(43)->snapshot, *disk.upcoming_sequence(kUid, kRun));
  EXPECT_LE(*disk.upcoming_sequence(kUid, kRun), sut_.find(kUid, kRun)->manifest.sequence);
  commit_ok(disk, staged(41)->snapshot);  // of a lower step: another run under the same name
  EXPECT_GT(*disk.upcoming_sequence(kUid, kRun), sut_.find(kUid, kRun)->manifest.sequence);
}

TEST_F(MemoryStoreTest, TakenOneIsGone) {
  keep_ok(sut_, staged(40)->snapshot);
  EXPECT_NE(sut_.take(kUid, kRun), nullptr);
  EXPECT_EQ(sut_.take(kUid, kRun), nullptr);
  EXPECT_THAT(sut_.all_of(kUid), IsEmpty());
}

}  // namespace
}  // namespace npu::daemon
