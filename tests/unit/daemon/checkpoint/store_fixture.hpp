// A store over a temporary directory, snapshots with known contents, and system calls that fail or
// die on demand. The directory goes away with the fixture, also when a test fails.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "daemon/checkpoint/store.hpp"

namespace npu::daemon {

/// Counts calls; the `fail_at`-th (from 1) fails with `error`, or ends the process when `error` is
/// kDie. fsync is counted but not carried out: these tests kill processes, not the machine.
class FaultyOps : public FileOps {
 public:
  static constexpr int kDie = -1;
  static constexpr int kExitCode = 42;

  uint64_t fail_at = 0;
  int error = 0;
  uint64_t calls = 0;
  std::string failed_call;              // which one it was
  std::map<int, int> syncs_after_fail;  // descriptor -> fsyncs since its fsync failed
  bool rename_flags = true;  // false: a file system without RENAME_EXCHANGE and RENAME_NOREPLACE

  int open(int dir, const char* name, int flags, mode_t mode) override {
    return gate("open") ? FileOps::open(dir, name, flags, mode) : -1;
  }
  int mkdir(int dir, const char* name, mode_t mode) override {
    return gate("mkdir") ? FileOps::mkdir(dir, name, mode) : -1;
  }
  int fallocate(int fd, uint64_t size_bytes) override {
    return gate("fallocate") ? FileOps::fallocate(fd, size_bytes) : -1;
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    return gate("write") ? FileOps::write(fd, bytes) : -1;
  }
  ssize_t pread(int fd, std::span<std::byte> bytes, uint64_t offset) override {
    return gate("pread") ? FileOps::pread(fd, bytes, offset) : -1;
  }
  int fstat(int fd, struct stat* out) override {
    return gate("fstat") ? FileOps::fstat(fd, out) : -1;
  }
  int fsync(int fd) override {
    if (const auto it = syncs_after_fail.find(fd); it != syncs_after_fail.end()) ++it->second;
    if (gate("fsync")) return 0;
    syncs_after_fail.emplace(fd, 0);
    return -1;
  }
  int rename(int dir, const char* from, const char* to, unsigned flags) override {
    if (!gate("rename")) return -1;
    if (flags != 0 && !rename_flags) {
      errno = EINVAL;
      return -1;
    }
    return FileOps::rename(dir, from, to, flags);
  }
  int unlink(int dir, const char* name, bool directory) override {
    return gate("unlink") ? FileOps::unlink(dir, name, directory) : -1;
  }
  int try_lock(int fd) override { return gate("try_lock") ? FileOps::try_lock(fd) : -1; }
  int read_dir(int fd, std::vector<std::string>* names) override {
    return gate("read_dir") ? FileOps::read_dir(fd, names) : -1;
  }
  int64_t unix_ms() override { return 1'700'000'000'000; }

 private:
  bool gate(const char* call) {
    if (++calls != fail_at) return true;
    failed_call = call;
    if (error == kDie) ::_exit(kExitCode);
    errno = error;
    return false;
  }
};

class StoreFixture : public testing::Test {
 protected:
  static constexpr uid_t kUid = 1234;
  static constexpr const char* kRun = "resnet20";

  /// `base` falls back to /tmp where it is not writable.
  explicit StoreFixture(const std::string& base = "/tmp") {
    for (const auto& parent : {base, std::string("/tmp")}) {
      root_ = parent + "/npu-ckpt-XXXXXX";
      if (::mkdtemp(root_.data()) != nullptr) return;
    }
    NPU_CHECK_MSG(false, "no directory for temporary files");
  }
  ~StoreFixture() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] std::string state_dir() const { return root_ + "/state"; }
  [[nodiscard]] std::string run_dir() const { return state_dir() + "/1234/" + kRun; }
  [[nodiscard]] std::string step_dir(uint64_t step) const {
    return run_dir() + "/step-" + std::to_string(step);
  }

  [[nodiscard]] CheckpointStore open_store(FileOps* ops = nullptr) const {
    auto store = CheckpointStore::open(state_dir(),
                                       {.ops = ops, .lock_wait = std::chrono::milliseconds(20)});
    EXPECT_TRUE(store.has_value()) << store.error().message;
    return std::move(*store);
  }

  /// Bytes of one snapshot; `salt` makes each one different.
  struct Staged {
    std::vector<float> weight, momentum;
    std::vector<uint16_t> half;
    int64_t tracked = 0;
    Snapshot snapshot;
  };

  static std::unique_ptr<Staged> staged(uint64_t step, uint32_t salt = 0, size_t elements = 600) {
    auto s = std::make_unique<Staged>();
    for (size_t i = 0; i < elements; ++i) {
      s->weight.push_back(static_cast<float>(i) + static_cast<float>(salt) * 0.25F);
      s->momentum.push_back(-s->weight.back());
    }
    s->half = {0x3c00, static_cast<uint16_t>(salt),
               0x7e00};  // 0x7e00: a NaN is payload like any other
    s->tracked = static_cast<int64_t>(step);
    Snapshot& snapshot = s->snapshot;
    snapshot = {.uid = kUid,
                .run = kRun,
                .step = step,
                .keep = 3,
                .protect_steps = {},
                .model = {},
                .optimizer = {},
                .state_json = fmt::format(R"({{"step": {}, "salt": {}}})", step, salt),
                .weights_digest = 77};
    snapshot.model = {
        tensor("conv1.weight", DType::kFloat32, {elements}, std::as_bytes(std::span(s->weight))),
        tensor("bn1.num_batches_tracked", DType::kInt64, {},
               std::as_bytes(std::span(&s->tracked, 1))),
        tensor("fc.bias", DType::kFloat16, {3}, std::as_bytes(std::span(s->half))),
        tensor("none", DType::kFloat32, {0, 7}, {})};
    snapshot.optimizer = {
        tensor("conv1.weight", DType::kFloat32, {elements}, std::as_bytes(std::span(s->momentum)))};
    return s;
  }

  static SnapshotTensor tensor(std::string name, DType dtype, TensorShape shape,
                               std::span<const std::byte> source) {
    return {std::move(name), dtype, std::move(shape), source, xxh3_64(source)};
  }

  static void commit_ok(CheckpointStore& store, const Snapshot& snapshot) {
    const auto report = store.commit(snapshot);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    ASSERT_TRUE(report->warnings.empty()) << report->warnings[0].message;
  }

  /// Every tensor of `checkpoint` has exactly the bytes that `snapshot` staged.
  static void expect_same(const OpenCheckpoint& checkpoint, const Snapshot& snapshot) {
    expect_same_file(checkpoint, kModelFile, snapshot.model);
    expect_same_file(checkpoint, kOptimizerFile, snapshot.optimizer);
    const OpenFile* state = checkpoint.find(kStateFile);
    ASSERT_NE(state, nullptr);
    std::string text(state->size_bytes, '\0');
    ASSERT_TRUE(pread_all(state->fd.get(), std::as_writable_bytes(std::span(text)), 0, "state"));
    EXPECT_EQ(text, snapshot.state_json);
    EXPECT_EQ(checkpoint.manifest.step, snapshot.step);
    EXPECT_EQ(checkpoint.manifest.weights_digest, snapshot.weights_digest);
  }

  static void expect_same_file(const OpenCheckpoint& checkpoint, const char* name,
                               std::span<const SnapshotTensor> tensors) {
    const OpenFile* open = checkpoint.find(name);
    ASSERT_NE(open, nullptr);
    auto copy = duplicate_fd(open->fd.get());
    ASSERT_TRUE(copy.has_value());
    const auto file = SafetensorsFile::open(std::move(*copy), name);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    ASSERT_EQ(file->tensors().size(), tensors.size());
    for (const auto& expected : tensors) {
      const TensorEntry* entry = file->find(expected.name);
      ASSERT_NE(entry, nullptr) << expected.name;
      EXPECT_EQ(entry->shape, expected.shape);
      std::vector<std::byte> bytes(entry->size_bytes());
      ASSERT_TRUE(file->read_tensor(*entry, bytes).has_value());
      EXPECT_TRUE(std::ranges::equal(bytes, expected.source)) << expected.name;
    }
  }

  [[nodiscard]] std::vector<std::string> names(const std::string& dir) const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      out.push_back(entry.path().filename().string());
    }
    std::ranges::sort(out);
    return out;
  }

  static std::string slurp(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static void flip_byte(const std::string& path, uint64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x10));
    ASSERT_TRUE(file.good()) << path;
  }

  std::string root_;
};

}  // namespace npu::daemon
