// A real daemon whose store is made to fail at a named place, and a run of one rank that commits
// small checkpoints with known bytes.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/admin.hpp"
#include "client/api/device.hpp"
#include "client/train/arena.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/safetensors.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/process.hpp"

namespace npu::fault {

inline constexpr milliseconds kLimit{20'000};  // a hang

/// What builds without failpoints cannot show.
inline bool has_failpoints() {
#ifdef NPU_NO_FAILPOINTS
  return false;
#else
  return true;
#endif
}

/// Asks every 5 ms until `condition` holds; false when it does not within kLimit.
template <typename Condition>
bool holds_soon(const Condition& condition) {
  const auto end = Clock::now() + kLimit;
  while (!condition()) {
    if (Clock::now() > end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

using test::open_fds;
using test::state_of;

/// One rank that commits what it is told; `salt` makes the bytes of one checkpoint differ from
/// another's. Its largest tensor takes several pieces of the store's buffer.
class TinyRun {
 public:
  static constexpr size_t kElements = 400'000;
  static constexpr uint64_t kArenaBytes = 16u << 20;

  explicit TinyRun(const std::string& socket, const std::string& run = "tiny",
                   uint32_t device = 0) {
    auto attached = client::Device::attach(
        {.socket = socket, .run = run, .world = 1, .device = device, .arena_bytes = kArenaBytes});
    EXPECT_TRUE(attached) << attached.error().message;
    if (!attached) return;
    device_ = std::move(*attached);
    client::ArenaAllocator arena(device_->arena());
    weight_ = *arena.take<float>(kElements);
    mean_ = *arena.take<float>(8);
    momentum_ = *arena.take<float>(kElements);
    table_ = *arena.take<shm::SnapshotTensor>(3);
    state_ = *arena.take<char>(256);
    describe(table_[0], "conv1.weight", weight_, 0, arena);
    describe(table_[1], "bn1.running_mean", mean_, 0, arena);
    describe(table_[2], "conv1.weight", momentum_, 1, arena);
    commit_.table_offset = arena.offset_of(table_.data());
    commit_.table_count = 3;
    commit_.state_offset = arena.offset_of(state_.data());
  }
  ~TinyRun() {
    if (device_ && !device_->failure()) (void)device_->detach();
  }

  [[nodiscard]] bool attached() const noexcept { return device_ != nullptr; }
  [[nodiscard]] std::span<float> weight() noexcept { return weight_; }

  static std::vector<float> expected(const std::string& name, int salt, size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 1000) * 0.25F + static_cast<float>(salt);
      if (name == "momentum") values[i] = -values[i];
    }
    return values;
  }

  /// Writes all bytes, without telling anybody.
  void stage(int salt) {
    std::ranges::copy(expected("weight", salt, kElements), weight_.begin());
    std::ranges::copy(expected("mean", salt, mean_.size()), mean_.begin());
    std::ranges::copy(expected("momentum", salt, kElements), momentum_.begin());
    const std::string text = "{\"salt\": " + std::to_string(salt) + "}";
    std::ranges::copy(text, state_.begin());
    commit_.state_bytes = text.size();
    commit_.weights_digest = static_cast<uint64_t>(salt);
    table_[0].digest = xxh3_64(std::as_bytes(weight_));
    table_[1].digest = xxh3_64(std::as_bytes(mean_));
    table_[2].digest = xxh3_64(std::as_bytes(momentum_));
  }

  struct Wanted {
    uint32_t keep = 3;
    bool best = false;
    bool memory = false;
  };
  [[nodiscard]] std::future<Result<client::CheckpointReport>> commit(int64_t step, int salt,
                                                                     Wanted wanted) {
    stage(salt);
    commit_.step = step;
    commit_.keep = wanted.keep;
    commit_.best = wanted.best ? 1 : 0;
    commit_.memory = wanted.memory ? 1 : 0;
    return device_->commit_checkpoint(commit_);
  }
  [[nodiscard]] std::future<Result<client::CheckpointReport>> commit(int64_t step, int salt) {
    return commit(step, salt, Wanted());
  }

 private:
  static void describe(shm::SnapshotTensor& row, const char* name, std::span<const float> values,
                       uint8_t file, const client::ArenaAllocator& arena) {
    row = {};
    shm::put_text(row.name, name);
    row.offset = arena.offset_of(values.data());
    row.bytes = values.size_bytes();
    row.rank = 1;
    row.shape[0] = static_cast<int64_t>(values.size());
    row.file = file;
    row.dtype = static_cast<uint8_t>(DType::kFloat32);
  }

  std::unique_ptr<client::Device> device_;
  std::span<float> weight_, mean_, momentum_;
  std::span<shm::SnapshotTensor> table_;
  std::span<char> state_;
  shm::CheckpointCommit commit_{};
};

class StoreFaultTest : public testing::Test {
 protected:
  /// Ends the daemon in order and starts it again, armed with `failpoints`.
  void restart(const std::string& failpoints = "") {
    if (daemon_.pid() > 0) daemon_.stop(SIGTERM);
    if (!failpoints.empty()) ::setenv("NPU_FAILPOINTS", failpoints.c_str(), 1);
    daemon_.start();
    ::unsetenv("NPU_FAILPOINTS");
  }

  /// Waits for the daemon's end by its own doing.
  void expect_killed() {
    ASSERT_TRUE(holds_soon([&] { return state_of(daemon_.pid()) == 'Z'; }))
        << "the daemon did not come by the failpoint";
    const int status = daemon_.stop(0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  /// One checkpoint that has to work.
  void commit_ok(TinyRun& run, int64_t step, int salt, TinyRun::Wanted wanted = {}) {
    ASSERT_TRUE(run.attached());
    const auto report = run.commit(step, salt, wanted).get();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->step, step);
  }

  [[nodiscard]] std::string run_dir(const std::string& run = "tiny") const {
    return daemon_.state_dir() + "/" + std::to_string(::getuid()) + "/" + run;
  }
  [[nodiscard]] std::vector<std::string> names(const std::string& run = "tiny") const {
    std::vector<std::string> all;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(run_dir(run), missing)) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }
  /// What a writer leaves when it dies, or has not finished.
  [[nodiscard]] bool has_leftovers(const std::string& run = "tiny") const {
    return std::ranges::any_of(names(run), [](const std::string& name) {
      return name.find(".tmp-") != std::string::npos || name.find(".old-") != std::string::npos;
    });
  }

  /// `step` (or kNewestStep) opens, and has every byte of (`want_step`, `salt`). Returns what was
  /// said of newer ones.
  std::string expect_checkpoint(int64_t step, int64_t want_step, int salt,
                                const std::string& run = "tiny") {
    auto files = client::open_checkpoint(daemon_.socket(), run, step);
    EXPECT_TRUE(files) << files.error().message;
    if (!files) return {};
    EXPECT_EQ(files->step, want_step);
    char text[256] = {};
    EXPECT_GT(::pread(files->state.get(), text, sizeof text - 1, 0), 0);
    EXPECT_EQ(text, "{\"salt\": " + std::to_string(salt) + "}");
    expect_tensor(std::move(files->model), "conv1.weight",
                  TinyRun::expected("weight", salt, TinyRun::kElements));
    expect_tensor(std::move(files->optimizer), "conv1.weight",
                  TinyRun::expected("momentum", salt, TinyRun::kElements));
    return files->warning;
  }

  static void expect_tensor(UniqueFd fd, const char* name, const std::vector<float>& want) {
    const auto file = SafetensorsFile::open(std::move(fd), "file");
    ASSERT_TRUE(file) << file.error().message;
    const TensorEntry* entry = file->find(name);
    ASSERT_NE(entry, nullptr);
    std::vector<float> got(want.size());
    ASSERT_EQ(entry->size_bytes(), got.size() * sizeof(float));
    ASSERT_TRUE(file->read_tensor(*entry, std::as_writable_bytes(std::span(got))));
    EXPECT_EQ(std::memcmp(got.data(), want.data(), entry->size_bytes()), 0);
  }

  test::DaemonProcess daemon_;
};

}  // namespace npu::fault
