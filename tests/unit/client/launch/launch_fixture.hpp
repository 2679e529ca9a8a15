// What the tests of the launcher share: ranks that are shell scripts and a renderer that remembers.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client/launch/supervisor.hpp"

namespace npu::client {

class RememberingRenderer : public Renderer {
 public:
  void on_event(const Event& event) override { events.push_back(event); }
  void log_line(LogStream stream, std::string_view line) override {
    (stream == LogStream::kStdout ? out : err).emplace_back(line);
  }
  void notice(std::string_view text) override { notices += std::string(text) + '\n'; }
  void set_interrupt(int) override {}
  void finish() override {}

  [[nodiscard]] const ErrorEvent* error() const {
    for (const Event& event : events) {
      if (const auto* found = std::get_if<ErrorEvent>(&event)) return found;
    }
    return nullptr;
  }

  std::vector<Event> events;
  std::vector<std::string> out, err;
  std::string notices;
};

inline RankSpec shell_rank(int rank, const std::string& script) {
  return {.rank = rank,
          .device = rank,
          .path = "/bin/sh",
          .argv = {"sh", "-c", script},
          .env = {"PATH=/usr/bin:/bin"}};
}

inline std::vector<RankSpec> shell_ranks(const std::vector<std::string>& scripts) {
  std::vector<RankSpec> specs;
  for (const std::string& script : scripts) {
    specs.push_back(shell_rank(static_cast<int>(specs.size()), script));
  }
  return specs;
}

/// Short limits, so that a test of a deadline is not slow; generous against a busy machine.
inline SupervisorOptions quick() {
  return {.stop_grace = milliseconds(300), .failure_grace = milliseconds(300)};
}

/// True once `pid` has ended (a zombie counts), false after five seconds.
inline bool is_gone(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return errno == ESRCH;
  pollfd poll{pidfd.get(), POLLIN, 0};
  return ::poll(&poll, 1, 5000) == 1;
}

inline size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace npu::client
