// npu ps against a real npud: runs that form, run, end and fail, and what their flight recorders
// still tell afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli_fixture.hpp"
#include "client/api/admin.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kTries = 1000;  // of 10 ms: a hang

class PsTest : public CliTest {
 protected:
  Outcome ps(std::vector<std::string> args) {
    args.insert(args.begin(), {"ps", "--socket", daemon_.socket()});
    return npu(std::move(args));
  }

  json ps_json(const std::vector<std::string>& args) {
    std::vector<std::string> all = {"-o", "json"};
    all.insert(all.end(), args.begin(), args.end());
    const Outcome got = ps(all);
    EXPECT_EQ(got.code, 0) << got.err;
    return json::parse(got.out, nullptr, false);
  }

  /// The run of that state once there is one.
  client::RunInfo wait_for(const std::string& state, uint64_t collectives = 0) {
    for (int i = 0; i < kTries; ++i) {
      const auto runs = client::list_runs(daemon_.socket());
      EXPECT_TRUE(runs);
      for (const auto& run : *runs) {
        if (run.state == state && run.collectives >= collectives) return run;
      }
      ::poll(nullptr, 0, 10);
    }
    ADD_FAILURE() << "no run became " << state;
    return {};
  }

  /// Two ranks that go on until they are stopped.
  std::vector<pid_t> start_endless_run() {
    auto pids = test::fork_ranks(daemon_.socket(), 2, [](client::Device& device) {
      device.set_progress(5 + device.rank());
      for (;;) {
        auto work = device.world().barrier();
        if (!work || !work->wait()) return 0;
      }
    });
    (void)wait_for("running", 10);
    return pids;
  }

  void run_one_barrier(const std::string& run) {
    for (const int code : test::wait_ranks(test::fork_ranks(
             daemon_.socket(), 2,
             [](client::Device& device) {
               auto work = device.world().barrier();
               return work && work->wait() ? 0 : 1;
             },
             run))) {
      EXPECT_EQ(code, 0);
    }
  }

  void expect_one_sentence(const Outcome& got, int code, const std::string& start) {
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, StartsWith(start));
    EXPECT_EQ(std::ranges::count(got.err, '\n'), 1) << got.err;
  }

  test::DaemonProcess daemon_;
};

TEST_F(PsTest, WithoutARunTheListIsEmpty) {
  const Outcome got = ps({"-o", "json"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "{\"schema\":1,\"runs\":[]}\n");
  EXPECT_EQ(ps({}).out, "no run\n");
}

TEST_F(PsTest, UnknownRunIsNoInput) {
  expect_one_sentence(ps({"--trace", "nobody"}), 66, "npu ps: error: trace of run 'nobody': ");
  EXPECT_THAT(ps({"--trace", "nobody"}).err, HasSubstr("no run of yours is known"));
}

TEST_F(PsTest, UnknownRunNamesThoseThatAreKnown) {
  run_one_barrier("first");
  (void)wait_for("ended");
  const Outcome got = ps({"--trace", "nobody", "-o", "json"});
  expect_one_sentence(got, 66, "npu ps: error: trace of run 'nobody': ");
  EXPECT_THAT(got.err, HasSubstr("known: 'first'"));
}

TEST_F(PsTest, WrongOptionsAreUsageErrors) {
  expect_one_sentence(ps({"-o", "chrome"}), 64, "npu ps: error: -o chrome ");
  expect_one_sentence(ps({"-n", "5"}), 64, "npu ps: error: -n requires --trace");
  expect_one_sentence(ps({"--trace", "x", "-n", "0"}), 64, "npu ps: error: ");
  expect_one_sentence(ps({"--trace", "x", "-n", "4097"}), 64, "npu ps: error: ");
  expect_one_sentence(ps({"-o", "xml"}), 64, "npu ps: error: -o,--output: 'xml' is none of ");
}

TEST_F(PsTest, NoDaemonIsExit69) {
  expect_one_sentence(npu({"ps", "--socket", root_ + "/none.sock"}), 69, "npu ps: error: ");
}

TEST_F(PsTest, RunningRunIsShownWithItsRanksAndSteps) {
  const auto pids = start_endless_run();
  const json run = ps_json({})["runs"].at(0);
  EXPECT_EQ(run["name"], "test");
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["uid"], ::getuid());
  EXPECT_EQ(run["world"], 2);
  EXPECT_EQ(run["steps"], 5);
  EXPECT_GE(run["collectives"], 10);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(run["ranks"][r],
              (json{{"rank", r}, {"device", r}, {"pid", pids[r]}, {"steps", 5 + r}}));
  }
  EXPECT_THAT(ps({}).out, HasSubstr(fmt::format("{},{}\n", pids[0], pids[1])));
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  (void)test::wait_ranks(pids);
}

TEST_F(PsTest, TraceOfARunningRunIsGivenInEachForm) {
  const auto pids = start_endless_run();
  const json trace = ps_json({"--trace", "test", "-n", "7"});
  EXPECT_EQ(trace["schema"], 1);
  EXPECT_EQ(trace["run"], "test");
  EXPECT_EQ(trace["state"], "running");
  EXPECT_TRUE(trace["error"].is_null());
  EXPECT_LE(trace["records"].size(), 7u);
  const Outcome chrome = ps({"--trace", "test", "-o", "chrome"});
  EXPECT_EQ(chrome.code, 0) << chrome.err;
  EXPECT_TRUE(json::parse(chrome.out, nullptr, false)["traceEvents"].is_array());
  EXPECT_THAT(ps({"--trace", "test"}).out, StartsWith("run 'test' generation 1: running, 2 ranks"));
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  (void)test::wait_ranks(pids);
}

TEST_F(PsTest, FailedRunIsShownWithItsReasonAndCanStillBeTraced) {
  const auto pids = start_endless_run();
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(test::wait_ranks(pids)[1], 128 + SIGKILL);
  const std::string culprit = fmt::format("rank 1 (pid {}) died", pids[1]);
  EXPECT_THAT(wait_for("aborted").last_error, HasSubstr(culprit));
  EXPECT_THAT(ps({}).out, HasSubstr(culprit));
  const json trace = ps_json({"--trace", "test"});
  EXPECT_EQ(trace["state"], "aborted");
  EXPECT_THAT(trace["error"].get<std::string>(), HasSubstr(culprit));
}

TEST_F(PsTest, AbortLeavesAPrivateFileOfTheTrace) {
  const auto pids = start_endless_run();
  ::kill(pids[0], SIGKILL);
  (void)test::wait_ranks(pids);
  const std::string path = fmt::format("{}/traces/{}-test-1.json", daemon_.state_dir(), ::getuid());
  for (int i = 0; i < kTries && ::access(path.c_str(), F_OK) != 0; ++i) ::poll(nullptr, 0, 10);
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0) << path;
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  std::ifstream file(path);
  const json trace = json::parse(file, nullptr, false);
  EXPECT_EQ(trace["run"], "test");
  EXPECT_EQ(trace["state"], "aborted");
  EXPECT_TRUE(trace["records"].is_array());
}

TEST_F(PsTest, RunThatEndedInOrderCanStillBeTracedAndLeavesNoFile) {
  run_one_barrier("test");
  EXPECT_EQ(wait_for("ended").joined, 0);
  EXPECT_EQ(ps_json({"--trace", "test"})["state"], "ended");
  EXPECT_TRUE(ps_json({})["runs"][0]["ranks"][0]["pid"].is_null());
  EXPECT_FALSE(std::filesystem::exists(daemon_.state_dir() + "/traces"));
}

TEST_F(PsTest, NewestRunOfANameIsTracedAndOnlyTheLastOnesAreKept) {
  for (int i = 0; i < 10; ++i) run_one_barrier(i == 0 ? "old" : "test");
  json runs;
  for (int i = 0; i < kTries; ++i) {  // the last one ends a moment after its ranks
    runs = ps_json({})["runs"];
    if (runs.back()["generation"] == 10 && runs.back()["state"] == "ended") break;
    ::poll(nullptr, 0, 10);
  }
  EXPECT_EQ(runs.size(), 8u);
  EXPECT_EQ(ps_json({"--trace", "test"})["generation"], 10);
  EXPECT_EQ(ps({"--trace", "old"}).code, 66);
}

TEST_F(PsTest, RunThatStillFormsDoesNotHideTheOneBefore) {
  run_one_barrier("test");
  (void)wait_for("ended");
  const auto options = test::attach_options(daemon_.socket(), 2, 0);
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(client::Device::attach(options) ? 1 : 0);  // alone: waits for rank 1
  EXPECT_EQ(wait_for("forming").generation, 2u);
  EXPECT_EQ(ps_json({"--trace", "test"})["generation"], 1);
  ::kill(pid, SIGKILL);
  (void)test::wait_ranks({pid});
}

}  // namespace
}  // namespace npu::cli
