#include "client/launch/private_daemon.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "launch_fixture.hpp"

namespace npu::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PrivateDaemonTest : public testing::Test {
 protected:
  PrivateDaemonTest() {
    std::string name = "/tmp/npu-test-XXXXXX";
    root_ = ::mkdtemp(name.data());
    ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
    ::unsetenv("FAKE_NPUD");
  }
  ~PrivateDaemonTest() override { fs::remove_all(root_); }

  [[nodiscard]] PrivateDaemonOptions options() const {
    return {.npud = FAKE_NPUD_PATH, .state_dir = root_ + "/state", .stop_grace = milliseconds(300)};
  }
  [[nodiscard]] size_t runtime_dirs() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(root_)) {
      count += entry.path().filename().string().starts_with("npu-private-") ? 1u : 0u;
    }
    return count;
  }

  std::string root_;
};

TEST_F(PrivateDaemonTest, TakesConnectionsAndLeavesNothingBehind) {
  pid_t pid = 0;
  {
    const auto sut = PrivateDaemon::start(options());
    ASSERT_TRUE(sut) << sut.error().message;
    pid = (*sut)->child().pid();
    struct stat st {};
    ASSERT_EQ(::stat(fs::path((*sut)->socket()).parent_path().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777u, 0700u);
    EXPECT_TRUE(fs::is_directory(root_ + "/state"));
  }
  EXPECT_TRUE(is_gone(pid));
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(PrivateDaemonTest, DaemonThatEndsWhileStartingIsReportedWithItsExitCode) {
  ::setenv("FAKE_NPUD", "fail", 1);
  const auto sut = PrivateDaemon::start(options());
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kUnavailable);
  EXPECT_THAT(sut.error().message, HasSubstr("exit code 78"));
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(PrivateDaemonTest, DaemonThatNeverListensRunsIntoTheLimit) {
  ::setenv("FAKE_NPUD", "deaf", 1);
  PrivateDaemonOptions limited = options();
  limited.ready_limit = milliseconds(100);
  const auto sut = PrivateDaemon::start(limited);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(PrivateDaemonTest, DaemonThatIgnoresTermIsKilledAfterTheGrace) {
  ::setenv("FAKE_NPUD", "stubborn", 1);
  { ASSERT_TRUE(PrivateDaemon::start(options())); }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(PrivateDaemonTest, MissingBinaryIsNoDaemon) {
  PrivateDaemonOptions missing = options();
  missing.npud = "/no/such/npud";
  EXPECT_FALSE(PrivateDaemon::start(missing));
  EXPECT_EQ(runtime_dirs(), 0u);
}

TEST_F(PrivateDaemonTest, DirectoryOfAKilledLauncherIsRemovedAndALiveOneIsNot) {
  fs::create_directories(root_ + "/npu-private-dead");
  const UniqueFd lock(
      ::open((root_ + "/npu-private-dead/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const auto first = PrivateDaemon::start(options());
  ASSERT_TRUE(first);
  EXPECT_FALSE(fs::exists(root_ + "/npu-private-dead"));
  const auto second = PrivateDaemon::start(options());
  ASSERT_TRUE(second);
  EXPECT_EQ(runtime_dirs(), 2u);
}

TEST_F(PrivateDaemonTest, StopSignalEndsTheWaitForReadiness) {
  ::setenv("FAKE_NPUD", "deaf", 1);
  auto signals = StopSignals::make();
  ASSERT_TRUE(signals);
  ::raise(SIGINT);
  PrivateDaemonOptions watched = options();
  watched.signals = &*signals;
  const auto sut = PrivateDaemon::start(watched);
  ASSERT_FALSE(sut);
  EXPECT_EQ(static_cast<int>(sut.error().exit), 130);
}

TEST(DefaultStateDir, FollowsXdgThenHome) {
  ::setenv("XDG_STATE_HOME", "/x", 1);
  EXPECT_EQ(default_state_dir(), "/x/npud");
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(default_state_dir(), "/h/.local/state/npud");
}

}  // namespace
}  // namespace npu::client
