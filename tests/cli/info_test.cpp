// npu info against a real npud: once, again and again, on a pipe and on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "background.hpp"
#include "cli_fixture.hpp"
#include "client/api/admin.hpp"
#include "client/render/full_screen.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/on_terminal.hpp"

namespace npu::cli {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int kTries = 3000;  // of 10 ms: a hang

class InfoTest : public CliTest {
 protected:
  std::vector<std::string> line(std::vector<std::string> args) {
    args.insert(args.begin(), {"info", "--socket", daemon_.socket()});
    return args;
  }
  Outcome info(std::vector<std::string> args) { return npu(line(std::move(args))); }

  json info_json(const std::vector<std::string>& args = {}) {
    std::vector<std::string> all = {"-o", "json"};
    all.insert(all.end(), args.begin(), args.end());
    const Outcome got = info(all);
    EXPECT_EQ(got.code, 0) << got.err;
    return json::parse(got.out, nullptr, false);
  }

  void expect_one_sentence(const Outcome& got, int code, const std::string& start) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith(start));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }

  test::DaemonProcess daemon_;
};

TEST_F(InfoTest, IdleDevicesHaveNoProcessAndWhatIsNotKnownIsNullOrNA) {
  const json all = info_json();
  EXPECT_EQ(all["schema"], 1);
  ASSERT_EQ(all["devices"].size(), 8u);
  EXPECT_EQ(all["devices"][3]["state"], "idle");
  EXPECT_EQ(all["devices"][3]["health"], "ok");
  EXPECT_TRUE(all["devices"][3]["process_percent"].is_null());
  EXPECT_EQ(all["daemon"]["pid"], daemon_.pid());
  EXPECT_EQ(all["warnings"], json::array());
  const Outcome text = info({});
  EXPECT_THAT(text.out, HasSubstr("| no process"));
  EXPECT_THAT(text.out, HasSubstr("| OK      IDLE    |    NA "));
  EXPECT_EQ(text.err, "");
  std::istringstream lines(text.out);
  for (std::string one; std::getline(lines, one);) EXPECT_EQ(one.size(), 78u) << one;
}

TEST_F(InfoTest, OnlyTheDevicesThatWereAskedForAreShown) {
  const json some = info_json({"-i", "1,3"});
  ASSERT_EQ(some["devices"].size(), 2u);
  EXPECT_EQ(some["devices"][0]["id"], 1);
  EXPECT_EQ(some["devices"][1]["id"], 3);
  EXPECT_EQ(info_json({"--id", "7"})["devices"].size(), 1u);
}

TEST_F(InfoTest, WrongInputIsOneSentence) {
  expect_one_sentence(info({"-i", "9"}), 66, "npu info: error: device 9: the daemon at '");
  expect_one_sentence(info({"-i", "x"}), 64, "npu info: error: ");
  expect_one_sentence(info({"--watch=0"}), 64, "npu info: error: --watch: ");
  expect_one_sentence(info({"--watch=x"}), 64, "npu info: error: ");
  expect_one_sentence(info({"-o", "xml"}), 64, "npu info: error: -o,--output: 'xml' is none of ");
  expect_one_sentence(npu({"info", "--watch", "--socket", root_ + "/none.sock"}), 69,
                      "npu info: error: find a daemon: ");
}

TEST_F(InfoTest, WatchOnAPipeIsAnObjectARefreshAndInterruptEndsItWell) {
  Background watch(env_, line({"--watch=0.1", "-o", "json"}));
  std::string all;
  while (std::ranges::count(all, '\n') < 3) {
    const std::string more = watch.read_until("\n");
    ASSERT_NE(more, "") << all;
    all += more;
  }
  const json first = json::parse(all.substr(0, all.find('\n')), nullptr, false);
  EXPECT_EQ(first["devices"].size(), 8u) << all;
  ::kill(watch.child().pid(), SIGINT);
  EXPECT_EQ(watch.child().wait().code(), 0);
}

TEST_F(InfoTest, WatchInTextGivesABlockARefreshAndNoEscapeSequence) {
  Background watch(env_, line({"--watch=0.1"}));
  std::string all;
  while (all.find("emulated", all.find("emulated") + 1) == std::string::npos) {
    const std::string more = watch.read_until("emulated");
    ASSERT_NE(more, "") << all;
    all += more;
  }
  EXPECT_THAT(all, Not(HasSubstr("\x1b")));
  ::kill(watch.child().pid(), SIGTERM);
  EXPECT_EQ(watch.child().wait().code(), 128 + SIGTERM);
}

TEST_F(InfoTest, DaemonThatGoesAwayIsShownAndWaitedFor) {
  Background watch(env_, line({"--watch=0.1", "-o", "json"}));
  ASSERT_THAT(watch.read_until("\"daemon\":{"), HasSubstr("\"daemon\":{"));
  daemon_.stop(SIGTERM);
  const std::string away = watch.read_until("\"error\":\"");
  EXPECT_THAT(away, HasSubstr("\"daemon\":null"));
  daemon_.start();
  EXPECT_THAT(watch.read_until("\"daemon\":{"), HasSubstr("\"daemon\":{"));
  ::kill(watch.child().pid(), SIGINT);
  EXPECT_EQ(watch.child().wait().code(), 0);
}

TEST_F(InfoTest, ReaderThatHasSeenEnoughEndsAWatch) {
  const std::string script = fmt::format("{} info --socket {} --watch=0.1 -o json | head -n 1",
                                         NPU_PATH, daemon_.socket());
  client::ChildSpec spec{.path = "/bin/sh", .argv = {"sh", "-c", script}, .env = env_};
  auto child = client::Child::start(spec);
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait().code(), 0);
}

class InfoTerminalTest : public InfoTest {
 protected:
  InfoTerminalTest() { env_.emplace_back("TERM=xterm"); }
  std::vector<std::string> watch_line() {
    auto args = line({"--watch=0.2"});
    args.insert(args.begin(), "npu");
    return args;
  }
};

TEST_F(InfoTerminalTest, WatchTakesTheAlternateScreenAndGivesItBack) {
  test::OnTerminal sut(watch_line(), env_, 100, 30);
  ASSERT_TRUE(sut.read_until("no process")) << sut.output();
  EXPECT_THAT(sut.output(), HasSubstr(client::kFullScreenEnter));
  sut.type('\x03');  // Ctrl-C, through the terminal
  EXPECT_EQ(sut.end(), 0);
  EXPECT_THAT(sut.output(), EndsWith(client::kFullScreenLeave));
}

TEST_F(InfoTerminalTest, SmallWindowIsFilledAndNotMore) {
  test::OnTerminal sut(watch_line(), env_, 40, 6);
  ASSERT_TRUE(sut.read_until("more lines")) << sut.output();
  sut.resize(100, 30);
  ASSERT_TRUE(sut.read_until("no process")) << sut.output();
  sut.kill(SIGTERM);
  EXPECT_EQ(sut.end(), 128 + SIGTERM);
  EXPECT_THAT(sut.output(), EndsWith(client::kFullScreenLeave));
}

TEST_F(InfoTerminalTest, SuspendedWatchGivesTheScreenBackMeanwhile) {
  test::OnTerminal sut(watch_line(), env_, 100, 30);
  ASSERT_TRUE(sut.read_until("no process")) << sut.output();
  sut.kill(SIGTSTP);
  ASSERT_TRUE(sut.read_until(std::string(client::kFullScreenLeave)));
  sut.kill(SIGCONT);
  ASSERT_TRUE(sut.read_until("no process"));
  sut.kill(SIGINT);
  EXPECT_EQ(sut.end(), 0);
}

TEST_F(InfoTerminalTest, MistakeIsToldOnTheOrdinaryScreen) {
  auto args = watch_line();
  args.insert(args.end(), {"-i", "9"});
  test::OnTerminal sut(args, env_, 100, 30);
  EXPECT_EQ(sut.end(), 66);
  EXPECT_THAT(sut.output(), Not(HasSubstr("\x1b")));
}

TEST_F(InfoTest, RankThatTheOthersWaitForIsShownAsStalledWithAWarning) {
  const auto pids = test::fork_ranks(daemon_.socket(), 2, [](client::Device& device) {
    for (;;) {
      auto work = device.world().barrier();
      if (!work || !work->wait()) return 0;
    }
  });
  json device;
  const auto look_until = [&](const std::function<bool()>& done) {
    for (int i = 0; i < kTries; ++i) {
      device = info_json()["devices"][1];
      if (done()) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  };
  ASSERT_TRUE(look_until([&] { return !device["wait_s"].is_null(); }));
  EXPECT_EQ(device["process"], "cli_info");
  ::kill(pids[1], SIGSTOP);
  ASSERT_TRUE(look_until([&] { return device["state"] == "stall"; })) << device;
  EXPECT_EQ(device["health"], "warn");
  EXPECT_GE(device["wait_s"], 10.0);
  EXPECT_EQ(info_json()["devices"][0]["state"], "busy");
  const Outcome text = info({"--color", "always"});
  EXPECT_THAT(text.out, HasSubstr("\x1b[1;31mSTALL"));
  EXPECT_THAT(text.err, StartsWith(fmt::format(
                            "npu info: warning: device 1: rank 1 (pid {}) has not come to barrier",
                            pids[1])));
  EXPECT_THAT(text.err, HasSubstr("`npu logs test --rank 1`"));
  EXPECT_EQ(info({"-q"}).err, "");
  EXPECT_EQ(info({"-i", "0"}).err, "");
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  (void)test::wait_ranks(pids);
}

}  // namespace
}  // namespace npu::cli
