// SIGTERM with work going on: what is in flight ends, the rest is told, what was handed over becomes durable.
#include <thread>

#include "client/api/device.hpp"
#include "tests/fault/store_fixture.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/service/service_fixture.hpp"

namespace npu::test {
namespace {

using testing::HasSubstr;
using client::Device;

constexpr const char* kReason = "the daemon is shutting down (DRAINING)";
constexpr uint64_t kCount = 100'000;

class DrainTest : public ServiceTest {
 protected:
  /// Two ranks, here.
  void attach() {
    std::thread other([this] {
      auto device = Device::attach(attach_options(socket(), 2, 1));
      if (device) ranks_[1] = std::move(*device);
    });
    auto device = Device::attach(attach_options(socket(), 2, 0));
    other.join();
    ASSERT_TRUE(device) << device.error().message;
    ASSERT_NE(ranks_[1], nullptr);
    ranks_[0] = std::move(*device);
  }
  Result<client::Work> submit(int rank) {
    auto* data = reinterpret_cast<float*>(ranks_[rank]->arena().data());
    std::fill_n(data, kCount, static_cast<float>(rank + 1));
    return ranks_[rank]->world().all_reduce(data, data, kCount, DType::kFloat32, ReduceOp::kSum);
  }
  /// True once the daemon has taken rank 0's first submission.
  bool is_in_flight() {
    return eventually([this] {
      const auto trace = client::read_run_trace(socket(), "test", 1);
      return trace && trace->snapshot.opened > 0;
    });
  }
  [[nodiscard]] float result(int rank, uint64_t i) {
    return reinterpret_cast<const float*>(ranks_[rank]->arena().data())[i];
  }
  template <typename T>
  void expect_told(const Result<T>& outcome) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kUnavailable);
    EXPECT_THAT(outcome.error().message, HasSubstr(kReason));
  }

  std::unique_ptr<Device> ranks_[2];
};

TEST_F(DrainTest, WithNothingToDoItEndsAtOnce) {
  start();
  npud_->signal(SIGTERM);
  EXPECT_TRUE(notify_.hears("STOPPING=1\nSTATUS=draining: 0 runs to end"));
  EXPECT_EQ(npud_->wait(), 0);
  EXPECT_NE(::access(socket().c_str(), F_OK), 0) << "its own socket is left behind";
}

TEST_F(DrainTest, CollectivesInFlightEndAndTheNextOneIsRefused) {
  start();
  attach();
  auto first = submit(0);
  ASSERT_TRUE(first);
  ASSERT_TRUE(is_in_flight());
  npud_->signal(SIGTERM);
  ASSERT_TRUE(notify_.hears("STOPPING=1\nSTATUS=draining: 1 run to end"));
  auto second = submit(1);
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_TRUE(first->wait());
  ASSERT_TRUE(second->wait());
  for (int rank : {0, 1}) {
    EXPECT_EQ(result(rank, 0), 3.0F);
    EXPECT_EQ(result(rank, kCount - 1), 3.0F);
  }
  EXPECT_EQ(npud_->wait(), 0);
  EXPECT_TRUE(eventually([this] { return ranks_[0]->failure() && ranks_[1]->failure(); }));
  for (const auto& rank : ranks_) EXPECT_THAT(rank->failure()->message, HasSubstr(kReason));
}

TEST_F(DrainTest, RanksThatGoOnAndOnDoNotKeepIt) {
  start();
  attach();
  std::thread other([this] {
    for (;;) {
      auto work = submit(1);
      if (!work || !work->wait()) return;
    }
  });
  Result<client::CollectiveResult> outcome;
  for (int i = 0; outcome; ++i) {
    auto work = submit(0);
    outcome = work ? work->wait() : Result<client::CollectiveResult>(tl::unexpected(work.error()));
    if (i == 10) npud_->signal(SIGTERM);
  }
  expect_told(outcome);
  other.join();
  EXPECT_EQ(npud_->wait(), 0);
}

// The deadline is the one that was reloaded, not the one of the start.
TEST_F(DrainTest, ARankThatDoesNotComeIsWaitedForUntilTheDeadline) {
  start_configured("service: {drain_timeout: 1h}\n");
  configure("service: {drain_timeout: 300ms}\n");
  (void)reload();
  attach();
  auto alone = submit(0);
  ASSERT_TRUE(alone);
  ASSERT_TRUE(is_in_flight());
  npud_->signal(SIGTERM);
  expect_told(alone->wait());
  EXPECT_EQ(npud_->wait(), 0);
  EXPECT_THAT(npud_->err(), HasSubstr("collectives in flight took longer than the drain run='test'"));
}

TEST_F(DrainTest, ASecondSignalEndsTheWait) {
  start_configured("service: {drain_timeout: 1h}\n");
  attach();
  auto alone = submit(0);
  ASSERT_TRUE(alone);
  ASSERT_TRUE(is_in_flight());
  npud_->signal(SIGTERM);
  ASSERT_TRUE(notify_.hears("STOPPING=1"));
  EXPECT_TRUE(npud_->alive());
  npud_->signal(SIGTERM);
  expect_told(alone->wait());
  EXPECT_EQ(npud_->wait(), 0);
}

TEST_F(DrainTest, ARunThatIsFormingIsToldAtOnce) {
  start_configured("service: {drain_timeout: 1h}\n");
  Result<void> outcome;
  std::thread rank([&] {
    auto device = Device::attach(attach_options(socket(), 2, 0));
    outcome = device ? Result<void>() : tl::unexpected(device.error());
  });
  EXPECT_TRUE(notify_.hears("STATUS=serving 1 run on 1 of 8 devices"));
  npud_->signal(SIGTERM);
  EXPECT_EQ(npud_->wait(), 0);
  rank.join();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("shutting down"));
}

// It takes longer than any drain: systemd is asked for time, and the checkpoint is whole.
TEST_F(DrainTest, ACheckpointThatIsBeingWrittenIsFinishedAndSystemdIsAskedForTime) {
  if (!has_failpoints()) GTEST_SKIP() << "this build has no failpoints";
  start({.environment = {"NPU_FAILPOINTS=ckpt.after_fallocate=sleep:2s"}});
  fault::TinyRun run(socket());
  ASSERT_TRUE(run.attached());
  auto report = run.commit(7, 1);
  ASSERT_TRUE(eventually([this] {
    const std::string folder = npud_->state_dir() + "/" + std::to_string(::getuid()) + "/tiny";
    return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
  }));
  npud_->signal(SIGTERM);
  EXPECT_TRUE(notify_.hears("STOPPING=1"));
  EXPECT_TRUE(notify_.hears("EXTEND_TIMEOUT_USEC=15000000"));
  EXPECT_EQ(npud_->wait(), 0);
  Npud next(root(), {});
  ASSERT_TRUE(next.answers());
  const auto list = client::list_checkpoints(socket(), "tiny", true);
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ((*list)[0].step, 7);
  EXPECT_EQ((*list)[0].state, "valid");
}

}  // namespace
}  // namespace npu::test
