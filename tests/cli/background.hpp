// An npu command that goes on while the test looks at it.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "client/launch/child.hpp"

namespace npu::cli {

/// An npu command in the background whose stdout is read as it comes.
class Background {
 public:
  Background(const std::vector<std::string>& env, std::vector<std::string> args)
      : pipe_(std::move(*client::make_pipe())) {
    client::ChildSpec spec{.path = NPU_PATH, .env = env, .stdout_fd = pipe_.write_end.get()};
    spec.argv = std::move(args);
    spec.argv.insert(spec.argv.begin(), "npu");
    auto started = client::Child::start(spec);
    EXPECT_TRUE(started);
    child_.emplace(std::move(*started));
    pipe_.write_end.reset();
  }

  /// Reads on until `text` came by or the other end is closed; everything that was read.
  std::string read_until(const std::string& text) {
    std::string all;
    char piece[4096];
    pollfd ready{pipe_.read_end.get(), POLLIN, 0};
    while (all.find(text) == std::string::npos && ::poll(&ready, 1, 30'000) == 1) {
      const ssize_t n = ::read(pipe_.read_end.get(), piece, sizeof piece);
      if (n <= 0) break;
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }

  /// Children of the launcher that run `npu train`.
  std::vector<pid_t> ranks() {
    std::vector<pid_t> pids;
    std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", child_->pid()));
    for (pid_t pid = 0; list >> pid;) {
      std::ifstream words(fmt::format("/proc/{}/cmdline", pid));
      std::string line;
      std::getline(words, line);
      if (line.find("train") != std::string::npos) pids.push_back(pid);
    }
    return pids;
  }

  client::Child& child() { return *child_; }

 private:
  client::Pipe pipe_;
  std::optional<client::Child> child_;
};

}  // namespace npu::cli
