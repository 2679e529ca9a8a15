// The npu program on a terminal of its own: a pseudo terminal whose other end the test holds.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "shm/base/fd.hpp"

namespace npu::test {

/// A program whose stdin, stdout and stderr are a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(std::vector<std::string> args, std::vector<std::string> env, unsigned short columns,
             unsigned short rows = 24) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid_ == 0) {
      std::vector<char*> argv, envp;
      for (std::string& arg : args) argv.push_back(arg.data());
      for (std::string& variable : env) envp.push_back(variable.data());
      argv.push_back(nullptr);
      envp.push_back(nullptr);
      ::execve(NPU_PATH, argv.data(), envp.data());
      ::_exit(127);
    }
    terminal_.reset(terminal);
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  /// Reads until `text` came by, or to the end; false if it did not, or nothing came for 30 s.
  bool read_until(const std::string& text) {
    pollfd ready{terminal_.get(), POLLIN, 0};
    const size_t from = all_.size();
    char piece[4096];
    while (text.empty() || all_.find(text, from) == std::string::npos) {
      if (::poll(&ready, 1, 30'000) != 1) return false;
      const ssize_t n = ::read(terminal_.get(), piece, sizeof piece);
      if (n <= 0) return false;  // the other end is closed
      all_.append(piece, static_cast<size_t>(n));
    }
    return true;
  }

  void read_what_is_there() {
    pollfd ready{terminal_.get(), POLLIN, 0};
    char piece[4096];
    while (::poll(&ready, 1, 0) == 1) {
      const ssize_t n = ::read(terminal_.get(), piece, sizeof piece);
      if (n <= 0) return;
      all_.append(piece, static_cast<size_t>(n));
    }
  }

  /// Exit code, after everything has been read.
  int end() {
    read_until("");
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void resize(unsigned short columns, unsigned short rows) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    EXPECT_EQ(::ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
  }
  void type(char c) { EXPECT_EQ(::write(terminal_.get(), &c, 1), 1); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  [[nodiscard]] const std::string& output() const { return all_; }

 private:
  pid_t pid_ = -1;
  UniqueFd terminal_;
  std::string all_;
};

}  // namespace npu::test
