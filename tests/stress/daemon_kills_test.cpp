// kill -9 of the daemon, twenty times at random moments of one job: the job goes on by itself to
// the same bits, and at no moment is there a checkpoint that cannot be read.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "daemon/checkpoint/store.hpp"
#include "tests/fault/restart_fixture.hpp"

namespace npu::e2e {
namespace {

/// Reads every byte of every checkpoint of a run, all the time, beside those that write there.
class Watcher {
 public:
  Watcher(std::string state_dir, std::string run)
      : state_dir_(std::move(state_dir)), run_(std::move(run)), thread_([this] { watch(); }) {}
  ~Watcher() { stop(); }

  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  /// After stop().
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  [[nodiscard]] uint64_t verified() const { return verified_; }

 private:
  void watch() {
    auto store = daemon::CheckpointStore::open(state_dir_);
    if (!store) {
      problems_.push_back(store.error().message);
      return;
    }
    while (!stop_) {
      look(*store);
      ::poll(nullptr, 0, 5);
    }
    look(*store);
  }

  void look(daemon::CheckpointStore& store) {
    const auto listed = store.list(::getuid(), run_);
    if (!listed) return;  // no run yet
    for (const auto& one : *listed) {
      auto verified = store.verify(::getuid(), run_, one.step);
      // Rotated out or replaced while it was read: then it is not in the list any more.
      if (!verified && !is_listed(store, one)) continue;
      if (!verified) verified = store.verify(::getuid(), run_, one.step);
      verified || !is_listed(store, one) ? void(++verified_)
                                         : problems_.push_back(verified.error().message);
    }
    had_one_ = had_one_ || !listed->empty();
    if (!had_one_) return;
    auto newest = store.open_newest_valid(::getuid(), run_);
    if (!newest) newest = store.open_newest_valid(::getuid(), run_);
    if (!newest) problems_.push_back("newest: " + newest.error().message);
  }

  bool is_listed(daemon::CheckpointStore& store, const daemon::CheckpointInfo& wanted) const {
    const auto listed = store.list(::getuid(), run_);
    return listed && std::ranges::any_of(*listed, [&](const auto& one) {
             return one.step == wanted.step && one.sequence == wanted.sequence;
           });
  }

  const std::string state_dir_, run_;
  std::vector<std::string> problems_;
  uint64_t verified_ = 0;
  bool had_one_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class DaemonKills : public RestartFixture {
 protected:
  static constexpr int kKills = 20;
  const std::vector<std::string> job_of_2000_steps_ = {"train.epochs=20", "data.train_samples=3200",
                                                       "checkpoint.every_steps=20",
                                                       "train.print_freq=100"};

  std::string calm_digest() {
    std::vector<std::string> sets = job_of_2000_steps_;
    sets.emplace_back("name=straight");
    return done(sets).weights_digest;
  }
  static std::mt19937 seeded() {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    return std::mt19937(seed);
  }
};

TEST_F(DaemonKills, TwentyOfThemCostNoBitAndNoCheckpoint) {
  std::mt19937 random = seeded();
  const std::string wanted = calm_digest();
  std::vector<std::string> sets = job_of_2000_steps_;
  sets.emplace_back("collectives.reconnect=0");  // each death a restart

  Watcher watcher(root_ + "/state/npud", "tiny");
  Background launch(env_, job(), sets, restarting(3));
  std::string said;
  for (int kill = 0; kill < kKills; ++kill) {
    said += up_to_a_checkpoint(launch);
    ::poll(nullptr, 0, static_cast<int>(random() % 150));
    const auto daemons = launch.children("npud");
    ASSERT_EQ(daemons.size(), 1u) << launch.err();
    ASSERT_EQ(::kill(daemons[0], SIGKILL), 0);
    said += launch.read_until("\"type\":\"restart\"");
  }
  const Story story = end_of(launch, said);
  watcher.stop();
  std::printf("%zu restarts, %llu checkpoints read back while the job ran\n",
              story.restarts().size(), static_cast<unsigned long long>(watcher.verified()));
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  EXPECT_EQ(story.restarts().size(), static_cast<size_t>(kKills));
  EXPECT_GT(watcher.verified(), static_cast<uint64_t>(kKills));
  EXPECT_THAT(watcher.problems(), testing::IsEmpty());
  EXPECT_EQ(recorded_steps(), first_steps(2000));
}

// The same, but that ranks wait for the daemon: nobody is started again, no step is trained twice.
TEST_F(DaemonKills, TwentyOfThemCostNoRestart) {
  std::mt19937 random = seeded();
  const std::string wanted = calm_digest();

  Watcher watcher(root_ + "/state/npud", "tiny");
  Background launch(env_, job(), job_of_2000_steps_);
  std::string said;
  pid_t daemon = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    said += up_to_a_checkpoint(launch);
    ::poll(nullptr, 0, static_cast<int>(random() % 150));
    daemon = next_daemon(launch, daemon);
    ASSERT_NE(daemon, 0) << launch.err();
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  }
  const Story story = end_of(launch, said);
  watcher.stop();
  EXPECT_EQ(story.code, 0) << story.err;
  EXPECT_EQ(story.digest(), wanted);
  EXPECT_EQ(story.restarts().size(), 0u);
  EXPECT_THAT(watcher.problems(), testing::IsEmpty());
  EXPECT_EQ(recorded_steps(), first_steps(2000));
}

}  // namespace
}  // namespace npu::e2e
