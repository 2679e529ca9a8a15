#include "client/launch/child.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include "launch_fixture.hpp"

namespace npu::client {
namespace {

ChildSpec shell(const std::string& script) {
  return {.path = "/bin/sh", .argv = {"sh", "-c", script}, .env = {"PATH=/usr/bin:/bin"}};
}

TEST(Child, ExitCodeAndSignalAreReported) {
  auto three = Child::start(shell("exit 3"));
  auto killed = Child::start(shell("kill -9 $$"));
  ASSERT_TRUE(three && killed);
  EXPECT_EQ(describe(three->wait()), "exit code 3");
  EXPECT_EQ(describe(killed->wait()), "killed by SIGKILL");
  EXPECT_EQ(killed->wait().code(), 137);
}

TEST(Child, ProgramThatIsNotThereIsAnErrorAndNoProcess) {
  const size_t before = open_descriptors();
  const auto child = Child::start({.path = "/no/such/program", .argv = {"x"}});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, Code::kNotFound);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no zombie
}

TEST(Child, IgnoredSignalsOfTheParentAreDefaultInTheChild) {
  std::signal(SIGPIPE, SIG_IGN);
  auto child = Child::start(shell("kill -PIPE $$; exit 0"));
  ASSERT_TRUE(child);
  EXPECT_EQ(describe(child->wait()), "killed by SIGPIPE");
}

TEST(Child, OnlyTheListedDescriptorsReachTheProgram) {
  auto pipe = make_pipe();
  auto kept = make_pipe();
  ASSERT_TRUE(pipe && kept);
  const int secret = pipe->write_end.get(), given = kept->write_end.get();
  ChildSpec spec =
      shell(fmt::format("[ ! -e /proc/self/fd/{} ] && [ -e /proc/self/fd/{} ]", secret, given));
  spec.keep_fds = {given};
  auto child = Child::start(spec);
  ASSERT_TRUE(child);
  EXPECT_TRUE(child->wait().ok());
}

TEST(Child, StaysOnTheProcessorItWasGiven) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  int core = 0;
  while (!CPU_ISSET(static_cast<size_t>(core), &set)) ++core;
  ChildSpec spec =
      shell(fmt::format("grep -q '^Cpus_allowed_list:[[:space:]]*{}$' /proc/self/status", core));
  spec.core = core;
  auto child = Child::start(spec);
  ASSERT_TRUE(child);
  EXPECT_TRUE(child->wait().ok());
  spec = shell("exit 0");
  spec.core = CPU_SETSIZE - 1;
  auto without = Child::start(spec);
  ASSERT_TRUE(without) << "a processor that is not there is no error";
  EXPECT_TRUE(without->wait().ok());
}

TEST(Child, DestructorKillsTheWholeGroup) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pid_t grandchild = 0;
  {
    ChildSpec spec = shell("sleep 100 & echo $!; wait");
    spec.stdout_fd = pipe->write_end.get();
    auto child = Child::start(spec);
    ASSERT_TRUE(child);
    pollfd ready{pipe->read_end.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    char text[32] = {};
    ASSERT_GT(::read(pipe->read_end.get(), text, sizeof text - 1), 0);
    grandchild = std::atoi(text);
  }
  EXPECT_TRUE(is_gone(grandchild));
}

TEST(Child, PollNeverBlocksAndKeepsTheStatus) {
  auto child = Child::start(shell("exec sleep 100"));
  ASSERT_TRUE(child);
  EXPECT_FALSE(child->poll().has_value());
  child->signal(SIGTERM);
  EXPECT_EQ(describe(child->wait()), "killed by SIGTERM");
  ASSERT_TRUE(child->poll().has_value());
  EXPECT_FALSE(child->alive());
}

}  // namespace
}  // namespace npu::client
