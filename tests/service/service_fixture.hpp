// A real npud as systemd would start it: a socket that hears what it notifies, its stderr in a file, descriptors and
// variables handed over. Killed and reaped at the end.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client/api/admin.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/temp_dir.hpp"

namespace npu::test {

inline constexpr auto kHang = std::chrono::seconds(30);  // no wait is longer

inline bool has_failpoints() {
#ifdef NPU_NO_FAILPOINTS
  return false;
#else
  return true;
#endif
}

/// Asks every 5 ms until it holds; false if it does not within the time of a hang.
inline bool eventually(const std::function<bool()>& holds) {
  const Deadline deadline = Deadline::after(kHang);
  while (!holds()) {
    if (deadline.passed()) return false;
    (void)::poll(nullptr, 0, 5);
  }
  return true;
}

inline std::string text_of(int fd) {
  std::string text(static_cast<size_t>(std::max<off_t>(::lseek(fd, 0, SEEK_END), 0)), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

/// The service manager's end of NOTIFY_SOCKET.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : path_(path), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = unix_address(path);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  [[nodiscard]] std::string variable() const { return "NOTIFY_SOCKET=" + path_; }

  /// The next message, or nothing within the time.
  [[nodiscard]] std::optional<std::string> next(milliseconds limit) {
    pollfd ready{fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
    char text[8192];
    const ssize_t n = ::recv(fd_.get(), text, sizeof(text), 0);
    if (n < 0) return std::nullopt;
    return std::string(text, static_cast<size_t>(n));
  }
  /// The next message that has the text; nothing if none comes for the time of a hang.
  [[nodiscard]] std::optional<std::string> hears(const std::string& text) {
    const Deadline deadline = Deadline::after(kHang);
    while (!deadline.passed()) {
      auto message = next(milliseconds(1000));
      if (message && message->find(text) != message->npos) return message;
    }
    ADD_FAILURE() << "systemd was never told '" << text << "'";
    return std::nullopt;
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

struct NpudSpec {
  std::vector<std::string> args;         // besides the directories
  std::vector<std::string> environment;  // "NAME=value"
  std::function<void()> in_child;        // before exec, with stderr in place
};

class Npud {
 public:
  Npud(const std::string& root, const NpudSpec& spec)
      : socket_(root + "/run/npud.sock"),
        state_(root + "/state"),
        err_(::memfd_create("stderr", MFD_CLOEXEC)) {
    std::vector<std::string> args = {program("npud"), "--runtime-dir", root + "/run", "--state-dir",
                                     state_};
    args.insert(args.end(), spec.args.begin(), spec.args.end());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(err_.get(), STDERR_FILENO);
      for (const char* name : {"NPU_LOG", "JOURNAL_STREAM", "NOTIFY_SOCKET"}) ::unsetenv(name);
      for (std::string variable : spec.environment) ::putenv(::strdup(variable.c_str()));
      if (spec.in_child) spec.in_child();
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~Npud() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Npud(const Npud&) = delete;
  Npud& operator=(const Npud&) = delete;

  [[nodiscard]] bool answers() const {
    return eventually([this] { return client::find_daemon(socket_).has_value(); });
  }
  void signal(int number) const { ASSERT_EQ(::kill(pid_, number), 0); }
  /// Exit code, or 128 + signal; -1 when it hangs.
  [[nodiscard]] int wait() {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    if (::poll(&ended, 1, static_cast<int>(milliseconds(kHang).count())) != 1) return -1;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] bool alive() const {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0;
  }
  [[nodiscard]] std::string err() const { return text_of(err_.get()); }
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  [[nodiscard]] const std::string& state_dir() const noexcept { return state_; }

 private:
  std::string socket_, state_;
  UniqueFd err_, pidfd_;
  pid_t pid_ = -1;
};

class ServiceTest : public testing::Test {
 protected:
  /// Starts it and hears READY=1.
  void start(NpudSpec spec = {}) {
    spec.environment.push_back(notify_.variable());
    npud_ = std::make_unique<Npud>(root(), spec);
    ready_ = notify_.hears("READY=1").value_or("");
    ASSERT_FALSE(ready_.empty()) << npud_->err();
  }
  /// The configuration file, written as a whole.
  std::string configure(const std::string& text) {
    const std::string path = root() + "/npud.yaml", fresh = path + ".new";
    std::ofstream(fresh) << text;
    EXPECT_EQ(::rename(fresh.c_str(), path.c_str()), 0);
    return path;
  }
  void start_configured(const std::string& text, std::vector<std::string> environment = {}) {
    start({.args = {"--config", configure(text)}, .environment = std::move(environment)});
  }
  /// SIGHUP; what systemd was told at the end of it.
  std::string reload() {
    npud_->signal(SIGHUP);
    EXPECT_TRUE(notify_.hears("RELOADING=1"));
    return notify_.hears("READY=1").value_or("");
  }
  [[nodiscard]] const std::string& root() const { return dir_.path(); }
  [[nodiscard]] const std::string& socket() const { return npud_->socket(); }

  TempDir dir_;
  NotifySocket notify_{dir_.path() + "/notify"};
  std::unique_ptr<Npud> npud_;
  std::string ready_;
};

}  // namespace npu::test
