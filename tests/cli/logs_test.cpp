// npu logs: what launches left, while they run and afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "background.hpp"
#include "cli_fixture.hpp"
#include "tests/support/on_terminal.hpp"

namespace npu::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

class LogsTest : public CliTest {
 protected:
  Outcome logs(std::vector<std::string> args) {
    args.insert(args.begin(), "logs");
    return npu(std::move(args));
  }

  /// The ranks say something themselves: their OpenMP library prints its settings to stderr.
  void launch_that_talks() {
    const Outcome got = npu({"launch", job()}, {"OMP_DISPLAY_ENV=TRUE"});
    ASSERT_EQ(got.code, 0) << got.err;
  }

  std::string run_folder(const std::string& run) const { return root_ + "/state/npu/runs/" + run; }

  /// A run's log that a launch might have left.
  void leave_log(const std::string& run, const std::string& name, const std::string& text) {
    fs::create_directories(run_folder(run) + "/logs");
    std::ofstream(run_folder(run) + "/logs/" + name) << text;
  }

  void expect_one_sentence(const Outcome& got, int code, const std::string& start) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith(start));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }
};

TEST_F(LogsTest, RunThatIsOverStillTellsWhatItSaid) {
  launch_that_talks();
  const Outcome all = logs({"tiny"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(all.err, "");
  EXPECT_THAT(all.out, HasSubstr("started a private npud"));
  EXPECT_THAT(all.out, HasSubstr("\nEpoch: [0]["));
  EXPECT_THAT(all.out, HasSubstr("\n[rank 1] OPENMP DISPLAY ENVIRONMENT BEGIN\n"));
  EXPECT_THAT(all.out, HasSubstr("\ncheckpoint step 4 -> "));
  const Outcome one = logs({"tiny", "--rank", "1"});
  EXPECT_THAT(one.out, StartsWith("\nOPENMP DISPLAY ENVIRONMENT BEGIN\n"));
  EXPECT_THAT(one.out, Not(HasSubstr("Epoch")));
  EXPECT_EQ(logs({run_folder("tiny")}).out, all.out);
  EXPECT_EQ(logs({"tiny", "-f"}).out, all.out);  // nothing to wait for
}

TEST_F(LogsTest, LastLinesAreAsManyAsAskedFor) {
  launch_that_talks();
  const std::string all = logs({"tiny"}).out;
  const std::string last = logs({"tiny", "-n", "3"}).out;
  EXPECT_EQ(std::ranges::count(last, '\n'), 3);
  EXPECT_TRUE(all.ends_with(last));
  EXPECT_EQ(logs({"tiny", "-n", "0"}).out, "");
}

TEST_F(LogsTest, JsonIsAnObjectALineInTheOrderOfTime) {
  launch_that_talks();
  std::istringstream lines(logs({"tiny", "-o", "json"}).out);
  std::string before;
  bool rank_seen = false, launcher_seen = false;
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line, nullptr, false);
    ASSERT_TRUE(record.is_object()) << line;
    EXPECT_EQ(record["schema"], 1);
    EXPECT_GE(record["time"].get<std::string>(), before);
    before = record["time"];
    rank_seen = rank_seen || (record["rank"] == 1 && record["stream"] == "stderr");
    launcher_seen = launcher_seen || (record["rank"].is_null() && record["stream"] == "stdout");
  }
  EXPECT_TRUE(rank_seen);
  EXPECT_TRUE(launcher_seen);
}

TEST_F(LogsTest, FollowShowsWhatComesAndEndsWithTheRun) {
  Background launch(env_, {"launch", job(), "--set", "train.epochs=1000"});
  ASSERT_THAT(launch.read_until("Epoch: [0]"), HasSubstr("Epoch: [0]"));
  Background follow(env_, {"logs", "tiny", "-f"});
  const std::string first = follow.read_until("Epoch: [0]");
  ASSERT_THAT(first, HasSubstr("run 'tiny'"));
  ASSERT_THAT(follow.read_until("Epoch: [2]"), HasSubstr("Epoch: [2]"));
  ::kill(launch.child().pid(), SIGTERM);
  EXPECT_THAT(follow.read_until("launch the job again to go on"),
              HasSubstr("launch the job again to go on"));
  EXPECT_EQ(follow.child().wait().code(), 0);
  EXPECT_EQ(launch.child().wait().code(), 80);
}

TEST_F(LogsTest, FollowEndsWhenTheLauncherIsKilledAndWithAnInterrupt) {
  Background launch(env_, {"launch", job(), "--set", "train.epochs=1000"});
  ASSERT_THAT(launch.read_until("Epoch: [0]"), HasSubstr("Epoch: [0]"));
  Background first(env_, {"logs", "tiny", "-f"}), second(env_, {"logs", "tiny", "-f"});
  ASSERT_THAT(first.read_until("Epoch"), HasSubstr("Epoch"));
  ASSERT_THAT(second.read_until("Epoch"), HasSubstr("Epoch"));
  ::kill(second.child().pid(), SIGINT);
  EXPECT_EQ(second.child().wait().code(), 0);
  ::kill(launch.child().pid(), SIGKILL);
  (void)first.read_until("never");
  EXPECT_EQ(first.child().wait().code(), 0);
}

TEST_F(LogsTest, WrongInputIsOneSentence) {
  launch_that_talks();
  expect_one_sentence(logs({"tinny"}), 66, "npu logs: error: no run 'tinny' has a folder here");
  EXPECT_THAT(logs({"tinny"}).err, HasSubstr("did you mean 'tiny'?"));
  expect_one_sentence(logs({"tiny", "--rank", "2"}), 66,
                      "npu logs: error: logs of run 'tiny': it has ranks 0 to 1, not 2");
  expect_one_sentence(logs({"tiny", "--rank", "8"}), 64, "npu logs: error: --rank: ");
  expect_one_sentence(logs({"tiny", "-n", "-1"}), 64, "npu logs: error: --lines: ");
  expect_one_sentence(logs({}), 64, "npu logs: error: RUN is required");
}

TEST_F(LogsTest, RefusedJobLeavesNoFolder) {
  EXPECT_EQ(npu({"launch", job(), "--set", "devices=0-1", "--daemon", "require"}).code, 69);
  EXPECT_FALSE(fs::exists(run_folder("tiny")));
}

TEST_F(LogsTest, ControlCharactersReachAPipeAndNotATerminal) {
  leave_log("evil", "rank-0.log",
            "2026-12-01T12:00:00.000000Z out \x1b]0;owned\x07\x1b[2J\ttab caf\xc3\xa9 \xff\n");
  leave_log("evil", "launch.log", "2026-12-01T12:00:01.000000Z out done\n");
  EXPECT_EQ(logs({"evil"}).out, "[rank 0] \x1b]0;owned\x07\x1b[2J\ttab caf\xc3\xa9 \xff\ndone\n");
  auto env = env_;
  env.insert(env.end(), {"TERM=xterm", "NO_COLOR=1"});
  test::OnTerminal sut({"npu", "logs", "evil"}, env, 120);
  EXPECT_EQ(sut.end(), 0);
  EXPECT_EQ(sut.output(), "[rank 0] \\x1b]0;owned\\x07\\x1b[2J\ttab caf\xc3\xa9 \\xff\r\ndone\r\n");
}

TEST_F(LogsTest, DamagedFilesAreShownAsFarAsTheyGo) {
  leave_log("odd", "launch.log.1", "2026-12-01T12:00:00.000000Z out first\n");
  leave_log("odd", "launch.log",
            "no form at all\n2026-12-01T12:00:02.000000Z err second\n2026-12-01T12:00:03.0000");
  leave_log("odd", "rank-0.log", std::string("2026-12-01T12:00:01.000000Z out a\0b\n", 36));
  fs::create_directories(run_folder("odd") + "/logs/rank-1.log");
  EXPECT_EQ(logs({"odd", "--rank", "0"}).out, std::string("a\0b\n", 4));
  expect_one_sentence(logs({"odd"}), 65, "npu logs: error: '");
  fs::remove(run_folder("odd") + "/logs/rank-1.log");
  const Outcome got = logs({"odd", "-t"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, StartsWith("2026-12-01T12:00:00.000000Z first\n"
                                  "2026-12-01T12:00:00.000000Z no form at all\n"
                                  "2026-12-01T12:00:01.000000Z [rank 0] a"));
  EXPECT_THAT(got.out, HasSubstr("\n2026-12-01T12:00:02.000000Z second\n"));
}

}  // namespace
}  // namespace npu::cli
