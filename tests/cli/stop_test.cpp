// npu stop: runs with a launcher and without one, gracefully and at once, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "background.hpp"
#include "cli_fixture.hpp"
#include "client/api/admin.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr int kTries = 3000;  // of 10 ms: a hang

class StopTest : public CliTest {
 protected:
  std::vector<std::string> endless(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"launch", job(), "-o", "json", "--set", "train.epochs=100000"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  void expect_one_sentence(const Outcome& got, int code, const std::string& start) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith(start));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }

  static void expect_training(Background& launch) {
    ASSERT_THAT(launch.read_until("\"step\":2,"), HasSubstr("\"step\":2,"));
  }
};

TEST_F(StopTest, LaunchWithItsOwnDaemonSavesAndEnds) {
  Background launch(env_, endless());
  expect_training(launch);
  const Outcome got = npu({"stop", "tiny"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out,
              StartsWith(fmt::format("run 'tiny': npu launch (pid {}) asked to stop; ended "
                                     "after ",
                                     launch.child().pid())));
  EXPECT_EQ(launch.child().wait().code(), 80);
  EXPECT_THAT(npu({"ckpt", "ls", "tiny"}).out, HasSubstr("tiny"));
}

TEST_F(StopTest, DaemonThatStaysSaysWhichStepWasSaved) {
  test::DaemonProcess daemon;
  Background launch(env_, endless({"--socket", daemon.socket()}));
  expect_training(launch);
  const Outcome got = npu({"stop", "tiny", "--socket", daemon.socket(), "-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  const json out = json::parse(got.out, nullptr, false);
  EXPECT_EQ(out["schema"], 1);
  EXPECT_EQ(out["run"], "tiny");
  EXPECT_EQ(out["generation"], 1);
  EXPECT_EQ(out["how"], "gracefully");
  EXPECT_EQ(out["through"], "launcher");
  EXPECT_EQ(out["pids"], json::array({launch.child().pid()}));
  EXPECT_EQ(out["ended"], true);
  EXPECT_GE(out["checkpoint_step"], 2);
  EXPECT_EQ(launch.child().wait().code(), 80);
}

TEST_F(StopTest, NowEndsALaunchWithoutSaving) {
  Background launch(env_, endless());
  expect_training(launch);
  const Outcome got = npu({"stop", "tiny", "--now"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("told to end at once; ended after"));
  EXPECT_EQ(launch.child().wait().code(), 128 + SIGTERM);
}

TEST_F(StopTest, WithoutAWaitItIsOnlyAsked) {
  Background launch(env_, endless());
  expect_training(launch);
  const Outcome got = npu({"stop", "tiny", "--wait", "0"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, MatchesRegex("run 'tiny': npu launch \\(pid [0-9]+\\) asked to stop\n"));
  EXPECT_EQ(launch.child().wait().code(), 80);
}

TEST_F(StopTest, SuspendedLaunchIsContinued) {
  Background launch(env_, endless());
  expect_training(launch);
  ::kill(launch.child().pid(), SIGSTOP);
  EXPECT_EQ(npu({"stop", "tiny"}).code, 0);
  EXPECT_EQ(launch.child().wait().code(), 80);
}

TEST_F(StopTest, RunBetweenTwoAttemptsIsFoundByItsFolder) {
  test::DaemonProcess daemon;
  const std::vector<std::string> socket = {"--socket", daemon.socket()};
  Background launch(env_, endless({"--socket", daemon.socket(), "--max-restarts", "3",
                                   "--restart-backoff", "30"}));
  expect_training(launch);
  ::kill(launch.ranks().at(1), SIGKILL);
  // Gone from the daemon: the launcher waits for its restart.
  const auto departed = [&] {
    const auto runs = client::list_runs(daemon.socket());
    return runs && std::ranges::all_of(*runs, [](const auto& run) {
             return run.state == "aborted" || run.state == "ended";
           });
  };
  for (int i = 0; i < kTries && !departed(); ++i) ::poll(nullptr, 0, 10);
  ASSERT_TRUE(launch.ranks().empty() || departed());
  const Outcome got = npu({"stop", "tiny", "--socket", daemon.socket()});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr(fmt::format("npu launch (pid {})", launch.child().pid())));
  EXPECT_NE(launch.child().wait().code(), 0);
}

TEST_F(StopTest, RanksStartedByHandAreSignalledThemselvesAndNotWhoStartedThem) {
  test::DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 2, [](client::Device& device) {
    for (;;) {
      auto work = device.world().barrier();
      if (!work || !work->wait()) return 0;
    }
  });
  const auto running = [&] {
    const auto runs = client::list_runs(daemon.socket());
    return runs && !runs->empty() && runs->front().state == "running";
  };
  for (int i = 0; i < kTries && !running(); ++i) ::poll(nullptr, 0, 10);
  const Outcome got =
      npu({"stop", "test", "--socket", daemon.socket(), "--now", "--wait", "0", "-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  const json out = json::parse(got.out, nullptr, false);
  EXPECT_EQ(out["through"], "ranks");
  EXPECT_EQ(out["pids"], json(pids));
  for (const int code : test::wait_ranks(pids)) EXPECT_EQ(code, 128 + SIGKILL);
}

TEST_F(StopTest, RunThatDoesNotEndInTimeIsExit75) {
  test::DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 1, [](client::Device& device) {
    std::signal(SIGTERM, SIG_IGN);
    for (;;) {
      auto work = device.world().barrier();
      if (!work || !work->wait()) return 0;
      device.set_progress(1);
    }
  });
  const auto deaf = [&] {
    const auto runs = client::list_runs(daemon.socket());
    return runs && !runs->empty() && runs->front().ranks.front().steps == 1;
  };
  for (int i = 0; i < kTries && !deaf(); ++i) ::poll(nullptr, 0, 10);
  expect_one_sentence(
      npu({"stop", "test", "--socket", daemon.socket(), "--wait", "0.2"}), 75,
      "npu stop: error: run 'test' still runs 0.2 s after its rank started by hand");
  ::kill(pids[0], SIGKILL);
  (void)test::wait_ranks(pids);
}

TEST_F(StopTest, WrongInputIsOneSentence) {
  Background launch(env_, endless());
  expect_training(launch);
  expect_one_sentence(npu({"stop", "tinny"}), 66,
                      "npu stop: error: no run 'tinny' of yours goes on; did you mean 'tiny'?");
  expect_one_sentence(npu({"stop", "tiny", "--wait", "-1"}), 64, "npu stop: error: --wait: ");
  expect_one_sentence(npu({"stop", "tiny", "--wait", "soon"}), 64, "npu stop: error: ");
  expect_one_sentence(npu({"stop"}), 64, "npu stop: error: RUN is required");
  expect_one_sentence(npu({"stop", "tiny", "--socket", root_ + "/none.sock", "--dir", root_}), 69,
                      "npu stop: error: find a daemon: ");
  EXPECT_EQ(npu({"stop", "tiny", "--now"}).code, 0);
  (void)launch.child().wait();
  expect_one_sentence(npu({"stop", "tiny"}), 69, "npu stop: error: find a daemon: ");
}

TEST_F(StopTest, RunThatIsOverDoesNotGoOn) {
  test::DaemonProcess daemon;
  ASSERT_EQ(npu({"launch", job(), "--socket", daemon.socket()}).code, 0);
  expect_one_sentence(npu({"stop", "tiny", "--socket", daemon.socket()}), 66,
                      "npu stop: error: no run 'tiny' of yours goes on; ");
}

/// Runs npu as another user and returns its exit code and stderr.
class OtherUserTest : public StopTest {
 protected:
  static constexpr uid_t kNobody = 65534;

  Outcome npu_as_nobody(const std::vector<std::string>& args) {
    std::string script =
        "exec setpriv --reuid=65534 --regid=65534 --clear-groups " + std::string(NPU_PATH);
    for (const std::string& arg : args) script += " '" + arg + "'";
    const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
    client::ChildSpec spec{.path = "/bin/sh",
                           .argv = {"sh", "-c", script},
                           .env = {"PATH=/usr/bin:/bin", "HOME=/nonexistent"},
                           .stdout_fd = err.get(),
                           .stderr_fd = err.get()};
    auto child = client::Child::start(spec);
    EXPECT_TRUE(child);
    Outcome out{.code = child->wait().code(), .out = {}, .err = {}};
    out.err.resize(static_cast<size_t>(::lseek(err.get(), 0, SEEK_END)));
    EXPECT_GE(::pread(err.get(), out.err.data(), out.err.size(), 0), 0);
    return out;
  }
};

TEST_F(OtherUserTest, RunOfAnotherUserDoesNotExistForOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  test::DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 1, [](client::Device& device) {
    for (;;) {
      auto work = device.world().barrier();
      if (!work || !work->wait()) return 0;
    }
  });
  for (int i = 0; i < kTries; ++i) {
    const auto runs = client::list_runs(daemon.socket());
    if (runs && !runs->empty()) break;
    ::poll(nullptr, 0, 10);
  }
  // The way to the socket, and nothing else, is opened.
  namespace fs = std::filesystem;
  const fs::path socket = daemon.socket();
  for (const fs::path& folder : {socket.parent_path().parent_path(), socket.parent_path()}) {
    fs::permissions(folder, fs::perms::others_exec, fs::perm_options::add);
  }
  fs::permissions(socket, fs::perms::others_read | fs::perms::others_write, fs::perm_options::add);
  const Outcome got = npu_as_nobody({"stop", "test", "--socket", daemon.socket()});
  EXPECT_EQ(got.code, 66) << got.err;
  EXPECT_THAT(got.err, StartsWith("npu stop: error: no run 'test' of yours goes on; none is"));
  EXPECT_THAT(got.err, testing::Not(HasSubstr(fmt::format("{}", pids[0]))));
  EXPECT_EQ(::kill(pids[0], 0), 0);
  ::kill(pids[0], SIGKILL);
  (void)test::wait_ranks(pids);
}

TEST_F(OtherUserTest, WhoSeesARunAndDoesNotOwnItIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  // The daemon's own user sees all runs.
  test::TempDir dir;
  ASSERT_EQ(::chown(dir.path().c_str(), kNobody, kNobody), 0);
  const std::string socket = dir.path() + "/run/npud.sock";
  client::ChildSpec spec{
      .path = "/usr/bin/setpriv",
      .argv = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", test::program("npud"),
               "--runtime-dir", dir.path() + "/run", "--state-dir", dir.path() + "/state"},
      .env = env_};
  auto daemon = client::Child::start(spec);
  ASSERT_TRUE(daemon);
  for (int i = 0; i < kTries && !client::find_daemon(socket); ++i) ::poll(nullptr, 0, 10);
  const auto pids = test::fork_ranks(socket, 1, [](client::Device& device) {
    for (;;) {
      auto work = device.world().barrier();
      if (!work || !work->wait()) return 0;
    }
  });
  for (int i = 0; i < kTries; ++i) {
    const auto runs = client::list_runs(socket);
    if (runs && !runs->empty()) break;
    ::poll(nullptr, 0, 10);
  }
  const Outcome got = npu_as_nobody({"stop", "test", "--socket", socket});
  EXPECT_EQ(got.code, 77) << got.err;
  EXPECT_THAT(got.err, StartsWith("npu stop: error: stop run 'test': it is of uid 0"));
  EXPECT_EQ(::kill(pids[0], 0), 0);
  const Outcome now = npu_as_nobody({"stop", "test", "--now", "--socket", socket});
  EXPECT_EQ(now.code, 0) << now.err;
  EXPECT_THAT(now.err, StartsWith("run 'test': the daemon (for uid 0) told to end at once"));
  EXPECT_EQ(test::wait_ranks(pids)[0], 0);  // its collective was aborted
}

TEST_F(StopTest, LaunchThatStandsInLineIsStoppedToo) {
  test::DaemonProcess daemon;
  Background first(env_, endless({"--socket", daemon.socket()}));
  expect_training(first);
  Background second(env_, endless({"--socket", daemon.socket(), "--wait", "--set", "name=later"}));
  const auto in_line = [&] {
    const auto runs = client::list_runs(daemon.socket());
    return runs &&
           std::ranges::any_of(*runs, [](const auto& run) { return run.state == "pending"; });
  };
  for (int i = 0; i < kTries && !in_line(); ++i) ::poll(nullptr, 0, 10);
  const Outcome got = npu({"stop", "later", "--socket", daemon.socket()});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr(fmt::format("npu launch (pid {})", second.child().pid())));
  EXPECT_EQ(second.child().wait().code(), 128 + SIGTERM);
  EXPECT_EQ(npu({"stop", "tiny", "--now", "--socket", daemon.socket()}).code, 0);
}

}  // namespace
}  // namespace npu::cli
