// Ranks that a shell loop or a service manager starts and starts again: they meet under the same
// run name in a new generation, and the end has the bits of a run that nothing happened to.
#include <memory>

#include "restart_fixture.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int kRanks = 8;
constexpr milliseconds kHang{60'000};

using Ranks = std::vector<std::unique_ptr<client::Child>>;

class RestartByHandTest : public RestartFixture {
 protected:
  RestartByHandTest() {
    use_daemon(daemon_.socket());
    job_ = job();
    sets_ = {"devices=0-7", "checkpoint.every_steps=3", "train.epochs=6", "data.workers=0"};
  }

  /// What a supervisor would run: rank 0 says its records at `out`.
  std::unique_ptr<client::Child> start(int rank, int out) {
    client::ChildSpec spec{.path = NPU_PATH, .argv = {"npu", "train", job_}, .env = env_};
    for (const std::string& set : sets_) spec.argv.insert(spec.argv.end(), {"--set", set});
    for (const char* name : {"RANK=", "LOCAL_RANK="})
      spec.env.push_back(name + std::to_string(rank));
    spec.env.insert(spec.env.end(), {"WORLD_SIZE=" + std::to_string(kRanks), "NPU_RUN_KEY=secret",
                                     "OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive"});
    if (rank == 0) {
      spec.env.push_back("NPU_EVENT_FD=" + std::to_string(out));
      spec.keep_fds = {out};
    }
    auto child = client::Child::start(spec);
    EXPECT_TRUE(child) << child.error().message;
    return std::make_unique<client::Child>(std::move(*child));
  }

  Ranks start_all(int out) {
    Ranks ranks;
    for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(start(rank, out));
    return ranks;
  }

  /// Until rank 0's last record of a step is `step` or later.
  static bool reach(int records, int64_t step) {
    return holds_within(kHang, [&] {
      const auto now = last<client::StepEvent>(events_of(text_of(records)));
      return now && now->step >= step;
    });
  }

  static std::string text_of(int fd) {
    std::string all(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
    const ssize_t n = ::pread(fd, all.data(), all.size(), 0);
    all.resize(n > 0 ? static_cast<size_t>(n) : 0);
    const size_t end = all.rfind('\n');  // a record may be half written
    return end == std::string::npos ? "" : all.substr(0, end + 1);
  }

  static UniqueFd records() {
    UniqueFd fd(::memfd_create("records", MFD_CLOEXEC));
    // Each rank 0 appends.
    EXPECT_EQ(::fcntl(fd.get(), F_SETFL, O_APPEND), 0);
    return fd;
  }

  test::DaemonProcess daemon_;
  std::string job_;  // written once: ranks read it while others are started
  std::vector<std::string> sets_;
};

TEST_F(RestartByHandTest, AllStartedAgainMeetAndEndWithTheSameBits) {
  std::vector<std::string> calm = sets_;
  calm.emplace_back("name=straight");
  const std::string wanted = done(calm).weights_digest;
  const UniqueFd out = records();
  auto ranks = start_all(out.get());
  ASSERT_TRUE(reach(out.get(), 7));
  ranks[5]->signal(SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int code = ranks[static_cast<size_t>(rank)]->wait().code();
    if (rank == 5) {
      EXPECT_EQ(code, 128 + SIGKILL);
    } else {
      EXPECT_THAT(code, AnyOf(75, 76)) << "rank " << rank;
    }
  }
  ranks = start_all(out.get());
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait().code(), 0);

  const auto events = events_of(text_of(out.get()));
  ASSERT_TRUE(last<client::DoneEvent>(events));
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, wanted);
  EXPECT_GE(last<client::StartEvent>(events)->resumed_step.value_or(0), 4);
}

// Only in memory: the disk has nothing to go on from.
TEST_F(RestartByHandTest, AllStartedAgainGoOnFromWhatTheDaemonKept) {
  sets_ = {"devices=0-7", "checkpoint.memory_every_steps=3", "checkpoint.every_epochs=0",
           "train.epochs=6", "data.workers=0"};
  std::vector<std::string> calm = sets_;
  calm.emplace_back("name=straight");
  const std::string wanted = done(calm).weights_digest;
  const UniqueFd out = records();
  auto ranks = start_all(out.get());
  ASSERT_TRUE(holds_within(kHang, [&] {
    return last<client::MemoryCheckpointEvent>(events_of(text_of(out.get()))).has_value();
  }));
  ranks[0]->signal(SIGKILL);
  for (const auto& rank : ranks) EXPECT_NE(rank->wait().code(), 0);
  ranks = start_all(out.get());
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait().code(), 0);

  const auto events = events_of(text_of(out.get()));
  ASSERT_TRUE(last<client::DoneEvent>(events));
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, wanted);
  EXPECT_THAT(last<client::StartEvent>(events)->resumed_from.value_or(""),
              HasSubstr("memory:tiny/step-"));
}

// Restart=on-failure a rank: nobody waits for the others to be gone before it starts its own again.
TEST_F(RestartByHandTest, EachRankIsStartedAgainAsSoonAsItEnds) {
  std::vector<std::string> calm = sets_;
  calm.emplace_back("name=straight");
  const std::string wanted = done(calm).weights_digest;
  const UniqueFd out = records();
  auto ranks = start_all(out.get());
  ASSERT_TRUE(reach(out.get(), 4));
  std::vector<bool> over(kRanks, false);
  int starts = 0, kills = 0;
  const auto end = Clock::now() + kHang;
  while (std::ranges::count(over, true) < kRanks && Clock::now() < end) {
    const auto now = last<client::StepEvent>(events_of(text_of(out.get())));
    if (kills < 2 && now && now->step >= (kills == 0 ? 4 : 11))
      ranks[static_cast<size_t>(3 + kills++)]->signal(SIGKILL);
    for (size_t r = 0; r < kRanks; ++r) {
      const auto status = over[r] ? std::nullopt : ranks[r]->poll();
      if (!status) continue;
      over[r] = status->ok();
      if (over[r]) continue;
      EXPECT_THAT(status->code(), AnyOf(75, 76, 128 + SIGKILL)) << "rank " << r;
      ranks[r] = start(static_cast<int>(r), out.get());
      ++starts;
    }
    ::poll(nullptr, 0, 5);
  }
  EXPECT_EQ(kills, 2);
  EXPECT_GE(starts, 2 * kRanks - 1);
  const auto events = events_of(text_of(out.get()));
  ASSERT_TRUE(last<client::DoneEvent>(events));
  EXPECT_EQ(last<client::DoneEvent>(events)->weights_digest, wanted);
}

TEST_F(RestartByHandTest, SecondProcessOfACompleteRunIsToldToTryAgain) {
  sets_.emplace_back("train.epochs=100000");
  const UniqueFd out = records();
  auto ranks = start_all(out.get());
  ASSERT_TRUE(reach(out.get(), 2));
  const auto second = start(3, out.get());
  EXPECT_EQ(second->wait().code(), 75);
  for (const auto& rank : ranks) rank->signal(SIGTERM);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait().code(), 80);
}

}  // namespace
}  // namespace npu::e2e
