// Several users of one daemon: processes that really are those users, and a daemon with the
// configuration that a test writes. Needs root; skipped otherwise.
#pragma once

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/api/admin.hpp"
#include "client/api/device.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::test {

inline constexpr gid_t kOperators = 60;  // a group of every Debian: "games"
inline constexpr const char* kOperatorsName = "games";

struct User {
  uid_t uid = 0;
  std::vector<gid_t> groups{};
};
inline const User kAlice{.uid = 20'011}, kBob{.uid = 20'012},
    kCarol{.uid = 20'013, .groups = {kOperators}};

/// A process of a user, and the line on which it and the test talk. Both sides say and hear.
class UserProcess {
 public:
  using Body = std::function<int(UserProcess&)>;  // its exit code

  UserProcess(const User& user, const Body& body) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
    pid_ = ::fork();
    line_ = ends[pid_ == 0 ? 1 : 0];
    ::close(ends[pid_ == 0 ? 0 : 1]);
    if (pid_ != 0) return;
    const bool is_user = ::setgroups(user.groups.size(), user.groups.data()) == 0 &&
                         ::setresgid(user.uid, user.uid, user.uid) == 0 &&
                         ::setresuid(user.uid, user.uid, user.uid) == 0;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // changing the user clears it
    ::_exit(is_user ? body(*this) : 255);
  }
  ~UserProcess() {
    if (pid_ > 0) kill(), (void)end();
  }
  UserProcess(const UserProcess&) = delete;
  UserProcess& operator=(const UserProcess&) = delete;

  void say(const std::string& text) const {
    (void)::send(line_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// What the other side says; empty when it is gone.
  [[nodiscard]] std::string hear() const {
    std::array<char, 4096> text{};
    const ssize_t n = ::recv(line_, text.data(), text.size(), 0);
    return n > 0 ? std::string(text.data(), static_cast<size_t>(n)) : std::string();
  }
  [[nodiscard]] std::string ask(const std::string& text) const {
    say(text);
    return hear();
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Exit code; 128 + signal if it was killed.
  int end() {
    ::shutdown(line_, SHUT_RDWR);
    ::close(line_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int line_ = -1;
};

/// Two ranks of one run, as threads of this process, that add numbers until they are told to stop.
class AddingRun {
 public:
  AddingRun(const std::string& socket, const std::string& run, uint32_t first_device,
            uint64_t arena_bytes = 1 << 20) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      threads_[rank] = std::thread([this, socket, run, first_device, rank, arena_bytes] {
        outcomes_[rank] = work({.socket = socket,
                                .run = run,
                                .run_key = "0123456789abcdef0123456789abcdef",
                                .world = 2,
                                .rank = rank,
                                .device = first_device + rank,
                                .arena_bytes = arena_bytes,
                                .join_timeout = milliseconds(20'000)});
        if (!outcomes_[rank]) failed_.store(true);
      });
    }
  }
  ~AddingRun() { (void)stop(); }

  /// "running" once it made twenty more rounds, or why it does not.
  [[nodiscard]] std::string goes_on() {
    const uint64_t wanted = rounds_.load() + 20;
    while (rounds_.load() < wanted && !failed_.load()) ::usleep(200);
    return failed_.load() ? why() : "running";
  }
  /// Waits for its end by somebody else's doing.
  [[nodiscard]] std::string why() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    for (const auto& outcome : outcomes_) {
      if (!outcome)
        return fmt::format("{} {}", static_cast<int>(outcome.error().exit),
                           outcome.error().message);
    }
    return "ended well";
  }
  [[nodiscard]] std::string stop() {
    stop_.store(true);
    return why();
  }

 private:
  Result<void> work(const client::AttachOptions& options) {
    NPU_TRY(const auto device, client::Device::attach(options));
    auto* data = reinterpret_cast<float*>(device->arena().data());
    for (;;) {
      for (int i = 0; i < 1000; ++i) data[i] = static_cast<float>(options.rank + 1);
      // The last value carries the wish to stop: both read the same sum.
      data[1000] = stop_.load() ? 1.0F : 0.0F;
      NPU_TRY(auto work,
              device->world().all_reduce(data, data, 1001, DType::kFloat32, ReduceOp::kSum));
      NPU_TRY_VOID(work.wait());
      if (data[0] != 3.0F || data[999] != 3.0F)
        return fail(Code::kInternal, "a wrong sum: {}", data[0]);
      rounds_.fetch_add(1);
      if (data[1000] != 0) return device->detach();
    }
  }

  std::atomic<uint64_t> rounds_{0};
  std::atomic<bool> stop_{false}, failed_{false};
  std::array<Result<void>, 2> outcomes_;
  std::array<std::thread, 2> threads_;
};

/// The body of a user whose run goes on until the test says "stop"; "more" asks whether it does.
inline UserProcess::Body adding(const std::string& socket, const std::string& run,
                                uint32_t first_device, uint64_t arena_bytes = 1 << 20) {
  return [=](UserProcess& me) {
    AddingRun sut(socket, run, first_device, arena_bytes);
    me.say(sut.goes_on());
    for (;;) {
      const std::string wish = me.hear();
      if (wish == "more") me.say(sut.goes_on());
      if (wish == "why") me.say(sut.why());
      if (wish == "stop" || wish.empty()) break;
    }
    const std::string end = sut.stop();
    me.say(end);
    return end == "ended well" ? 0 : 1;
  };
}

class UsersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  }

  /// A daemon that every user reaches, as in /run/npud.
  void start(const std::string& yaml = "") {
    const std::string file = dir_.path() + "/npud.yaml";
    std::ofstream(file) << yaml << "admin_group: " << kOperatorsName << "\n";
    daemon_.emplace(std::vector<std::string>{"--config", file});
    const std::string run = socket().substr(0, socket().rfind('/'));
    ASSERT_EQ(::chmod(run.substr(0, run.rfind('/')).c_str(), 0755), 0);
    ASSERT_EQ(::chmod(run.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(socket().c_str(), 0666), 0);
  }
  [[nodiscard]] const std::string& socket() const { return daemon_->socket(); }

  /// What `body` returns when it runs as this user; errors as "EXIT message".
  std::string as(const User& user, const std::function<std::string()>& body) {
    UserProcess process(user, [&](UserProcess& me) {
      me.say(body());
      return 0;
    });
    std::string said = process.hear();
    EXPECT_EQ(process.end(), 0);
    return said;
  }

  TempDir dir_;
  std::optional<DaemonProcess> daemon_;
};

inline std::string text_of(const Error& error) {
  return fmt::format("{} {}", static_cast<int>(error.exit), error.message);
}

}  // namespace npu::test
