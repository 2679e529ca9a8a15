// F27, F29, F30, F32, F38: the daemon dies, pauses, is asked to stop, is started twice, or with bad
// settings.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "client/api/admin.hpp"
#include "client/launch/child.hpp"
#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

class DaemonTest : public FaultTest {
 protected:
  void expect_all_end(Group& group, Code code, const std::string& text, uint64_t since_ns) {
    for (uint32_t r = 0; r < group.world(); ++r) {
      const Report& report = group.report(r);
      EXPECT_EQ(group.wait(r), 0) << "rank " << r << ": " << report.text;
      EXPECT_EQ(code_name(static_cast<Code>(report.code)), code_name(code)) << report.text;
      EXPECT_NE(std::string(report.text).find(text), std::string::npos) << report.text;
      const uint64_t ended = report.ended_ns.load();
      if (ended > since_ns) took(ended - since_ns);
    }
  }
};

/// Where npud dies; `whole`: what was under way is then done for all ranks or for none.
struct DaemonCut {
  const char* name;
  const char* failpoints;
  Op op;
  bool whole;
};

void PrintTo(const DaemonCut& cut, std::ostream* out) { *out << cut.name; }

constexpr DaemonCut kDaemonCuts[] = {
    {"Gathering", "engine.gathering=kill@40", Op::kDirect, true},
    {"InASlice", "engine.slice=kill@40", Op::kDirect, true},
    {"InARoundOfARing", "engine.slice=kill@60", Op::kRing, true},
    {"BetweenCompletions", "engine.before_completion=kill@40", Op::kDirect, false},
    {"BeforeTheWake", "engine.before_wake=kill@8", Op::kDirect, true},
    {"BeforeTheWakeOfABarrier", "engine.before_wake=kill@50", Op::kBarrier, true}};

class DaemonCutTest : public DaemonTest, public testing::WithParamInterface<DaemonCut> {};

// F27; with the wake, F39: what was published is found although nobody is left to wake anybody.
TEST_P(DaemonCutTest, EveryRankIsToldAndTheNextDaemonServesTheSameBits) {
  start_daemon();
  const uint64_t healthy = healthy_digest(6);
  daemon().stop(SIGKILL);
  daemon().set_environment({fmt::format("NPU_FAILPOINTS={}", GetParam().failpoints)});
  daemon().start();

  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, daemon().pid(), 0)));
  const auto group =
      run({.body = [](Rank& rank) { return operate_until_failure(rank, GetParam().op); }});
  pollfd ended{pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, static_cast<int>(kHang.count())), 1)
      << "the daemon does not come to the failpoint";
  const uint64_t died = now_ns();
  expect_all_end(*group, Code::kUnavailable, "is gone", died);
  print_longest("all ranks told", "1 s");
  for (uint32_t r = 1; r < 6 && GetParam().whole; ++r) {
    EXPECT_EQ(group->report(r).done.load(), group->report(0).done.load()) << "rank " << r;
  }

  const int status = daemon().stop(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  daemon().set_environment({});
  const uint64_t begin = now_ns();
  daemon().start();
  std::printf("[  TIME    ] the next daemon is ready: %.3f s (bound 3 s)\n",
              static_cast<double>(now_ns() - begin) * 1e-9);
  EXPECT_EQ(healthy_digest(6), healthy);
}

INSTANTIATE_TEST_SUITE_P(, DaemonCutTest, testing::ValuesIn(kDaemonCuts),
                         [](const testing::TestParamInfo<DaemonCut>& test) {
                           return test.param.name;
                         });

// F29: a pause of the daemon is nobody's fault. Deadlines are 1.5 s, the pause is 5.
TEST_F(DaemonTest, PauseIsNotHeldAgainstTheRanks) {
  start_daemon();
  start_bystander();
  const client::CollectiveOptions options{.timeout = milliseconds(1500)};
  const auto busy =
      run({.run = "busy", .world = 3, .body = [&](Rank& rank) {
             for (uint64_t i = 1; rank.id() != 0 || rank.go.load() == 0; ++i) {
               if (const auto ended = operate(rank, Op::kDirect, i, options); !ended) {
                 // Rank 0 has left: the end of this test, if it went well.
                 return rank.go.load() != 0 ? 0 : fail_with(rank, ended.error());
               }
               rank.report.done.store(i);
             }
             return 0;
           }});
  const auto late = run({.run = "late", .world = 3, .first_device = 3, .body = [&](Rank& rank) {
                           rank.report.done.store(1);
                           while (rank.id() == 2 && rank.go.load() == 0) short_pause();
                           const auto ended = operate(rank, Op::kBroadcast, 2, options);
                           return ended ? 0 : fail_with(rank, ended.error());
                         }});
  ASSERT_TRUE(busy->reaches(5));
  ASSERT_TRUE(late->reaches(1));
  ::kill(daemon().pid(), SIGSTOP);
  (void)::poll(nullptr, 0, 5000);
  ::kill(daemon().pid(), SIGCONT);
  late->let_go();
  for (uint32_t r = 0; r < 3; ++r)
    EXPECT_EQ(late->wait(r), 0) << "rank " << r << ": " << late->report(r).text;
  EXPECT_TRUE(busy->reaches(busy->report(0).done.load() + 20));
  busy->let_go();
  for (uint32_t r = 0; r < 3; ++r)
    EXPECT_EQ(busy->wait(r), 0) << "rank " << r << ": " << busy->report(r).text;
  expect_recovered(6, "");
}

// F30; a checkpoint in progress: TrainingFaultTest.DaemonThatIsToldToStopEndsItsCheckpoints.
TEST_F(DaemonTest, TerminationUnderLoadTellsTheRanksAndExitsZero) {
  start_daemon("engine.slice=sleep:1ms@every");
  const auto group =
      run({.body = [](Rank& rank) { return operate_until_failure(rank, Op::kAllToAll); }});
  ASSERT_TRUE(group->reaches(3));
  const uint64_t begin = now_ns();
  EXPECT_EQ(daemon().stop(SIGTERM), 0);
  took(now_ns() - begin);
  expect_all_end(*group, Code::kUnavailable, "the daemon is shutting down", begin);
  print_longest("drained", "25 s");
}

// F32
TEST_F(DaemonTest, SecondOneIsRefusedAndTheFirstOneGoesOn) {
  start_daemon();
  start_bystander();
  const auto group = run({.body = [](Rank& rank) {
    for (uint64_t i = 1;; ++i) {  // rank 0 decides when all stop
      uint64_t stop = rank.id() == 0 ? rank.go.load() : 0;
      if (const auto ended = operate(rank, Op::kDirect, i); !ended)
        return fail_with(rank, ended.error());
      auto agreed = rank.all().all_reduce(&stop, &stop, 1, DType::kUint64, ReduceOp::kSum);
      if (!agreed || !agreed->wait()) return 2;
      rank.report.done.store(i);
      if (stop != 0) return 0;
    }
  }});
  ASSERT_TRUE(group->reaches(3));
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  const std::string folder = std::filesystem::path(daemon().socket()).parent_path();
  client::ChildSpec spec{.path = test::program("npud"), .stderr_fd = err.get()};
  spec.argv = {"npud", "--runtime-dir", folder, "--state-dir", daemon().state_dir()};
  const uint64_t begin = now_ns();
  auto second = client::Child::start(spec);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->wait().code(), static_cast<int>(Exit::kBusy));
  took(now_ns() - begin);
  print_longest("refused", "0.5 s");
  std::string said(4096, '\0');
  said.resize(
      static_cast<size_t>(std::max<ssize_t>(::pread(err.get(), said.data(), said.size(), 0), 0)));
  EXPECT_NE(said.find("another one runs in '" + folder + "'"), std::string::npos) << said;
  EXPECT_TRUE(group->reaches(group->report(0).done.load() + 10));
  group->let_go();
  for (uint32_t r = 0; r < 6; ++r)
    EXPECT_EQ(group->wait(r), 0) << "rank " << r << ": " << group->report(r).text;
  expect_recovered(6, "");
}

/// What npud says when it does not start, and its exit code.
std::pair<int, std::string> failed_start(const std::vector<std::string>& args) {
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  client::ChildSpec spec{.path = test::program("npud"), .argv = {"npud"}, .stderr_fd = err.get()};
  spec.argv.insert(spec.argv.end(), args.begin(), args.end());
  auto started = client::Child::start(spec);
  if (!started) return {-1, started.error().message};
  const int code = started->wait().code();
  std::string said(4096, '\0');
  said.resize(
      static_cast<size_t>(std::max<ssize_t>(::pread(err.get(), said.data(), said.size(), 0), 0)));
  return {code, said};
}

// F38: every mistake with its place, in one pass; nothing is made or bound before.
TEST_F(DaemonTest, BadSettingsAreNamedWithTheirLinesAndNothingIsBound) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/npud.yaml", run = dir.path() + "/run";
  std::ofstream(file) << "devices: 4\ndevice_memory: lots\nengine_thread: 2\n";
  const std::vector<std::string> args = {"--config", file,          "--runtime-dir",
                                         run,        "--state-dir", dir.path() + "/state"};
  const auto [code, said] = failed_start(args);
  EXPECT_EQ(code, static_cast<int>(Exit::kBadConfig)) << said;
  EXPECT_NE(said.find(file + ":2:16: error: device_memory"), std::string::npos) << said;
  EXPECT_NE(said.find(file + ":3:1: error: "), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(run));

  std::ofstream(file) << "devices: [1\n";
  const auto [syntax_code, syntax] = failed_start(args);
  EXPECT_EQ(syntax_code, static_cast<int>(Exit::kBadConfig)) << syntax;
  EXPECT_NE(syntax.find(file + ":"), std::string::npos) << syntax;
}

// F38: a daemon that runs keeps what it has.
TEST_F(DaemonTest, BadSettingsAtAHangupLeaveTheDaemonAndItsRunsAsTheyAre) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/npud.yaml";
  std::ofstream(file) << "devices: 4\n";
  const test::DaemonProcess configured({"--config", file});
  Group group(configured.socket(), {.world = 4, .body = [](Rank& rank) {
                                      for (uint64_t i = 1;; ++i) {
                                        uint64_t stop = rank.id() == 0 ? rank.go.load() : 0;
                                        auto agreed = rank.all().all_reduce(
                                            &stop, &stop, 1, DType::kUint64, ReduceOp::kSum);
                                        if (!agreed || !agreed->wait()) return 2;
                                        rank.report.done.store(i);
                                        if (stop != 0) return 0;
                                      }
                                    }});
  ASSERT_TRUE(group.reaches(5));
  std::ofstream(file) << "devices: none\n";
  ASSERT_EQ(::kill(configured.pid(), SIGHUP), 0);
  EXPECT_TRUE(group.reaches(group.report(0).done.load() + 20));
  const auto info = client::query_info(configured.socket());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->devices.size(), 4u);
  group.let_go();
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(group.wait(r), 0) << group.report(r).text;
}

}  // namespace
}  // namespace npu::fault
