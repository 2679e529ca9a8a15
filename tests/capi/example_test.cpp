// The example program against a real daemon, as processes and as threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

int run_example(const char* mode) {
  test::DaemonProcess daemon({"--engine-threads", "2"});
  const std::string path = test::program("capi_example");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(path.c_str(), path.c_str(), mode, daemon.socket().c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Example, EveryOperationIsRightOnEightProcesses) { EXPECT_EQ(run_example("processes"), 0); }

TEST(Example, EveryOperationIsRightOnEightThreads) { EXPECT_EQ(run_example("threads"), 0); }

}  // namespace
}  // namespace npu
