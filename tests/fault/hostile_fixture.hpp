// A daemon under attack, with another run going on in it. Whatever a test does, at its end the daemon
// serves, the other run has gone on with right results, and no descriptor is left over.
#pragma once

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "client/api/admin.hpp"
#include "client/api/device.hpp"
#include "tests/fault/hostile_client.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/process.hpp"

namespace npu::test {

/// Polls until it holds; false if it never does.
inline bool eventually(const std::function<bool()>& holds) {
  const Deadline deadline = Deadline::after(kHangLimit);
  while (!deadline.passed()) {
    if (holds()) return true;
    ::usleep(2000);
  }
  return holds();
}

/// Exit code of `body` in a child that runs as another user; 255 if it could not become one.
inline int as_user(uid_t uid, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 ||
        ::setresuid(uid, uid, uid) != 0) {
      ::_exit(255);
    }
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Two ranks on devices 6 and 7 that add up numbers until they are told to stop.
class Bystander {
 public:
  explicit Bystander(const std::string& socket) {
    shared_ = static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    new (shared_) Shared;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      pids_[rank] = ::fork();
      if (pids_[rank] == 0) ::_exit(work(socket, rank));
    }
  }
  ~Bystander() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  [[nodiscard]] bool goes_on() const {
    const uint64_t now = shared_->rounds.load();
    return eventually([&] { return shared_->rounds.load() >= now + 20; });
  }
  /// True if both ranks end in order, with every sum right.
  [[nodiscard]] bool finish() {
    shared_->stop.store(1);
    bool good = true;
    for (pid_t& pid : pids_) {
      int status = -1;
      ::waitpid(pid, &status, 0);
      pid = -1;
      good &= status == 0;
    }
    return good;
  }

 private:
  struct Shared {
    std::atomic<uint64_t> rounds{0};
    std::atomic<uint64_t> stop{0};
  };

  int work(const std::string& socket, uint32_t rank) {
    auto device = client::Device::attach({.socket = socket,
                                          .run = "bystander",
                                          .run_key = "b",
                                          .world = 2,
                                          .rank = rank,
                                          .device = 6 + rank,
                                          .arena_bytes = uint64_t{1} << 20,
                                          .job_hash = 1,
                                          .join_timeout = std::chrono::seconds(20),
                                          .on_failure = {}});
    if (!device) return 1;
    auto* data = reinterpret_cast<float*>((*device)->arena().data());
    for (uint64_t round = 1;; ++round) {
      // The last value carries the wish to stop: both read the same sum.
      for (int i = 0; i < 5000; ++i) data[i] = static_cast<float>(rank + 1);
      data[5000] = shared_->stop.load() != 0 ? 1.0F : 0.0F;
      auto sum = (*device)->world().all_reduce(data, data, 5001, DType::kFloat32, ReduceOp::kSum);
      if (!sum || !sum->wait()) return 2;
      if (data[0] != 3.0F || data[4999] != 3.0F) return 3;
      if (rank == 0) shared_->rounds.store(round);
      if (data[5000] != 0) break;
    }
    return (*device)->detach() ? 0 : 4;
  }

  Shared* shared_ = nullptr;
  std::array<pid_t, 2> pids_{-1, -1};
};

class HostileTest : public testing::Test {
 protected:
  HostileTest() : HostileTest(std::vector<std::string>{}) {}
  explicit HostileTest(std::vector<std::string> daemon_args)
      : daemon_(std::move(daemon_args)), bystander_(daemon_.socket()) {}

  void SetUp() override {
    ASSERT_TRUE(bystander_.goes_on());
    // The daemon keeps the flight recorders of its last eight runs: fill them, so that the count of
    // descriptors stands still.
    for (int i = 0; i < 8; ++i) {
      const auto rank = RawRank::attach(socket(), "before-" + std::to_string(i), 5, 1 << 16);
      ASSERT_NE(rank, nullptr);
      ASSERT_TRUE(rank->send_plain(shm::MessageType::kDetach));
      ASSERT_TRUE(rank->receive());
    }
    settle();
    fds_before_ = open_fds(daemon_.pid());
  }

  void TearDown() override {
    if (testing::Test::IsSkipped()) return;
    EXPECT_TRUE(bystander_.goes_on()) << "the other run stands still";
    settle();
    EXPECT_TRUE(eventually([this] { return open_fds(daemon_.pid()) <= fds_before_; }))
        << open_fds(daemon_.pid()) << " descriptors are open, it were " << fds_before_;
    EXPECT_TRUE(bystander_.finish()) << "the other run was hurt";
    // A new run on the devices that were attacked.
    const auto next = RawRank::attach(socket(), "after", 0);
    ASSERT_NE(next, nullptr);
    EXPECT_TRUE(next->barrier(0));
    EXPECT_EQ(daemon_.stop(SIGTERM), 0) << "the daemon did not end in order";
  }

  [[nodiscard]] const std::string& socket() const noexcept { return daemon_.socket(); }

  /// Only the other run is there.
  void settle() {
    EXPECT_TRUE(eventually([this] {
      const auto info = client::query_info(socket());
      return info && info->runs.size() <= 1;
    }));
  }

  /// Opens the daemon's folders and socket to all users, as /run/npud is.
  void open_to_everybody() {
    const std::string run = socket().substr(0, socket().rfind('/'));
    ASSERT_EQ(::chmod(run.substr(0, run.rfind('/')).c_str(), 0755), 0);
    ASSERT_EQ(::chmod(run.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(socket().c_str(), 0666), 0);
  }

  DaemonProcess daemon_;
  Bystander bystander_;
  size_t fds_before_ = 0;
};

}  // namespace npu::test
