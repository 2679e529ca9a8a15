// The launcher itself is stopped or killed: it runs in a process of its own here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cstdio>

#include "client/render/text_renderer.hpp"
#include "launch_fixture.hpp"

namespace npu::client {
namespace {

using testing::HasSubstr;

// A launcher whose stdout and stderr arrive in a pipe.
class Launcher {
 public:
  explicit Launcher(const std::vector<std::string>& scripts) {
    // Orphans come to the test, so that it can tell whether they are gone.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto pipe = make_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      int code = 70;
      {
        TextRenderer renderer({.out_fd = pipe->write_end.get(), .err_fd = pipe->write_end.get()});
        auto signals = StopSignals::make();
        const auto outcome = supervise(shell_ranks(scripts), *signals, renderer, quick());
        if (outcome) code = outcome->exit_code;
      }
      ::_exit(code);
    }
    stdout_ = std::move(pipe->read_end);
  }
  ~Launcher() {
    ::kill(pid_, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Reads until `wanted` lines have come.
  std::vector<std::string> lines(size_t wanted) {
    std::vector<std::string> got;
    std::string line;
    char c = 0;
    while (got.size() < wanted) {
      pollfd ready{stdout_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 5000) != 1 || ::read(stdout_.get(), &c, 1) != 1) break;
      if (c == '\n')
        got.push_back(std::exchange(line, {}));
      else
        line += c;
    }
    return got;
  }

  /// The pids that ranks printed as their only line.
  std::vector<pid_t> rank_pids(size_t ranks) {
    std::vector<pid_t> pids;
    for (const std::string& line : lines(ranks)) {
      int rank = 0, pid = 0;
      if (std::sscanf(line.c_str(), "[rank %d] %d", &rank, &pid) == 2) pids.push_back(pid);
    }
    return pids;
  }

  int exit_code() {
    int status = 0;
    EXPECT_TRUE(is_gone(pid_));
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  UniqueFd stdout_;
};

const std::string kSleeper = "echo $$; exec sleep 100";

TEST(SupervisorStop, RanksAreGoneWhenTheLauncherIsKilled) {
  Launcher launcher({kSleeper, kSleeper, kSleeper});
  const auto pids = launcher.rank_pids(3);
  ASSERT_EQ(pids.size(), 3u);
  ::kill(launcher.pid(), SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(SupervisorStop, InterruptEndsTheRanksAndExits130) {
  Launcher launcher({kSleeper, kSleeper});
  const auto pids = launcher.rank_pids(2);
  ASSERT_EQ(pids.size(), 2u);
  ::kill(launcher.pid(), SIGINT);
  EXPECT_EQ(launcher.exit_code(), 130);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(SupervisorStop, TermExits143) {
  Launcher launcher({kSleeper});
  ASSERT_EQ(launcher.rank_pids(1).size(), 1u);
  ::kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.exit_code(), 143);
}

TEST(SupervisorStop, RankThatIgnoresTermIsKilledAfterTheGrace) {
  Launcher launcher({"trap '' TERM; echo $$; while :; do sleep 100; done"});
  const auto pids = launcher.rank_pids(1);
  ASSERT_EQ(pids.size(), 1u);
  ::kill(launcher.pid(), SIGINT);
  EXPECT_EQ(launcher.exit_code(), 130);
  EXPECT_TRUE(is_gone(pids[0]));
}

// A rank that finishes its step on SIGTERM, as `npu train` does.
const std::string kGraceful = "trap 'exit 80' TERM; echo $$; while :; do sleep 0.02; done";

TEST(SupervisorStop, RanksThatFinishTheirStepMakeTheExitCode80) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Launcher launcher({kGraceful, kGraceful});
    ASSERT_EQ(launcher.rank_pids(2).size(), 2u);
    ::kill(launcher.pid(), signal);
    EXPECT_EQ(launcher.exit_code(), 80);
  }
}

TEST(SupervisorStop, RankThatIsAskedAloneStopsTheJobWithoutBlame) {
  Launcher launcher({kGraceful, kGraceful});
  const auto pids = launcher.rank_pids(2);
  ASSERT_EQ(pids.size(), 2u);
  for (const pid_t pid : pids) ::kill(pid, SIGTERM);
  EXPECT_EQ(launcher.exit_code(), 80);
  EXPECT_THAT(launcher.lines(1), testing::ElementsAre(HasSubstr("launch the job again to go on")));
}

TEST(SupervisorStop, PeerThatStaysBehindIsEndedAfterTheGrace) {
  Launcher launcher({kGraceful, kSleeper});
  const auto pids = launcher.rank_pids(2);
  ASSERT_EQ(pids.size(), 2u);
  ::kill(pids[0], SIGTERM);
  EXPECT_NE(launcher.exit_code(), 0);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
}

TEST(SupervisorStop, SecondSignalEndsRanksThatAreStillAtIt) {
  Launcher launcher({"trap '' TERM; echo $$; while :; do sleep 100; done"});
  const auto pids = launcher.rank_pids(1);
  ASSERT_EQ(pids.size(), 1u);
  ::kill(launcher.pid(), SIGTERM);
  const auto remark = launcher.lines(1);  // the first signal is taken
  ASSERT_EQ(remark.size(), 1u);
  EXPECT_THAT(remark[0],
              HasSubstr(fmt::format("asked to stop (SIGTERM from pid {}, uid {}), 1 ranks",
                                    ::getpid(), ::getuid())));
  ::kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.exit_code(), 143);
  EXPECT_TRUE(is_gone(pids[0]));
}

TEST(SupervisorStop, IgnoredHangupStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  Launcher launcher({"echo $$; sleep 0.3; exit 0"});
  std::signal(SIGHUP, SIG_DFL);
  ASSERT_EQ(launcher.rank_pids(1).size(), 1u);
  ::kill(launcher.pid(), SIGHUP);
  EXPECT_EQ(launcher.exit_code(), 0);
}

TEST(SupervisorStop, SuspendStopsAndContinuesTheRanks) {
  Launcher launcher({"echo $$; sleep 0.2; echo on; sleep 0.1; exit 0"});
  ASSERT_EQ(launcher.rank_pids(1).size(), 1u);
  ::kill(launcher.pid(), SIGTSTP);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher.pid(), &status, WUNTRACED), launcher.pid());
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(launcher.pid(), SIGCONT);
  EXPECT_THAT(launcher.lines(1), testing::ElementsAre("[rank 0] on"));
  EXPECT_EQ(launcher.exit_code(), 0);
}

}  // namespace
}  // namespace npu::client
