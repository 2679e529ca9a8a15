// The first signal asks, the second ends; what the launcher passes on is never the second.
#include "client/cli/graceful_stop.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace npu::cli {
namespace {

/// How a process ends that runs `body` after stop_gracefully: 128 + signal, or what body returns.
int outcome(pid_t launcher, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    stop_gracefully(launcher == 1 ? ::getpid() : launcher);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(GracefulStop, FirstSignalIsNotedSecondEnds) {
  for (const int number : {SIGTERM, SIGINT}) {
    EXPECT_EQ(outcome(0, [&] { return ::raise(number), stop_signal().load(); }), number);
    EXPECT_EQ(outcome(0, [&] { return ::raise(number), ::raise(number), 3; }), 128 + number);
  }
  EXPECT_EQ(outcome(0, [] { return ::raise(SIGTERM), ::raise(SIGINT), 3; }), 128 + SIGINT);
  EXPECT_EQ(outcome(0, [] { return stop_signal().load(); }), 0);
}

TEST(GracefulStop, LauncherAndServiceManagerTogetherAreOneRequest) {
  // Signals of the process to itself stand for the launcher's, those of its parent for another's.
  const pid_t parent = ::getpid();
  constexpr int kItself = 1;
  EXPECT_EQ(outcome(kItself, [] { return ::raise(SIGTERM), ::raise(SIGTERM), 3; }), 3);
  EXPECT_EQ(outcome(parent, [] { return ::raise(SIGTERM), ::raise(SIGTERM), 3; }), 128 + SIGTERM);
}

TEST(GracefulStop, IgnoredSignalStaysIgnored) {
  std::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(outcome(0, [] { return ::raise(SIGINT), stop_signal().load(); }), 0);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace
}  // namespace npu::cli
