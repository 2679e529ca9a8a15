// F39, F40: nobody wakes the sleepers, signals interrupt them, and a single core has to do for all.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <thread>

#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

class WakeTest : public FaultTest {
 protected:
  void expect_all_end_well(Group& group) {
    for (uint32_t r = 0; r < group.world(); ++r) {
      EXPECT_EQ(group.wait(r), 0) << "rank " << r << ": " << group.report(r).text;
    }
  }

  /// The operation that took the rank longest; it must have waited for the thread that slept.
  static void expect_slowest(const Group& group, uint32_t rank, uint64_t operation) {
    EXPECT_EQ(group.report(rank).slowest.load(), operation) << "rank " << rank;
    EXPECT_GT(group.report(rank).slowest_ns.load(), 1'000'000'000u) << "rank " << rank;
  }
};

// F39. The engine publishes operation 20 and then does not come to the wake for 1.5 s: who sleeps
// finds the completion in a wait slice, so it is operation 21 that is late. (Daemon killed there:
// DaemonCutTest.)
TEST_F(WakeTest, CompletionWithoutAWakeIsFoundWithinASlice) {
  start_daemon("engine.before_wake=sleep:1500ms@21");  // the check is the first
  const auto group =
      run({.world = 4, .body = [](Rank& rank) { return operate_times(rank, Op::kBarrier, 30); }});
  expect_all_end_well(*group);
  for (uint32_t r = 0; r < 4; ++r) expect_slowest(*group, r, 21);
}

// F39. A rank publishes its entry and does not come to the kick: for the others that operation ends
// in time.
TEST_F(WakeTest, SubmissionWithoutAKickIsFoundWithinASlice) {
  start_daemon();
  GroupSpec spec{.world = 4,
                 .body = [](Rank& rank) { return operate_times(rank, Op::kBarrier, 30); }};
  spec.failpoints[1] = "coll.before_kick=sleep:1500ms@21";
  const auto group = run(spec);
  expect_all_end_well(*group);
  for (const uint32_t r : {0u, 2u, 3u}) expect_slowest(*group, r, 21);
  expect_slowest(*group, 1, 20);
}

// F39. A timer interrupts each rank two thousand times a second, without SA_RESTART.
TEST_F(WakeTest, SignalStormChangesNothing) {
  start_daemon();
  start_bystander();
  const auto group = run({.body = [](Rank& rank) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    if (::sigaction(SIGALRM, &action, nullptr) != 0) return 3;
    const itimerval storm{{0, 500}, {0, 500}};
    if (::setitimer(ITIMER_REAL, &storm, nullptr) != 0) return 4;
    for (const Op op : kAllOps) {
      if (const int code = operate_times(rank, op, 40); code != 0) return code;
    }
    const itimerval calm{};
    return ::setitimer(ITIMER_REAL, &calm, nullptr);
  }});
  expect_all_end_well(*group);
  expect_recovered(6, "");
}

/// This process, and what it starts, on the first `count` of the cores it may use.
class Cores {
 public:
  explicit Cores(int count) {
    CPU_ZERO(&before_);
    EXPECT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&some) < count; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &some);
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof(some), &some), 0);
  }
  ~Cores() { (void)::sched_setaffinity(0, sizeof(before_), &before_); }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

 private:
  cpu_set_t before_;
};

double cpu_seconds(pid_t pid) {
  timespec used{};
  clockid_t clock = 0;
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

class FewCoresTest : public WakeTest, public testing::WithParamInterface<int> {};

// F40
TEST_P(FewCoresTest, EightRanksWorkWaitQuietlyAndAreReleased) {
  const Cores cores(GetParam());
  start_daemon("", GetParam());
  const auto group = run({.world = 8, .body = [](Rank& rank) {
                            for (const Op op : kAllOps) {
                              if (const int code = operate_times(rank, op, 10); code != 0)
                                return code;
                            }
                            rank.report.done.store(1000);
                            while (rank.id() == 0 && rank.go.load() == 0)
                              (void)::poll(nullptr, 0, 100);
                            return operate_until_failure(rank, Op::kBarrier);
                          }});
  ASSERT_TRUE(group->reaches(1000));
  const auto total = [&] {
    double sum = cpu_seconds(daemon().pid());
    for (uint32_t r = 0; r < 8; ++r) sum += cpu_seconds(group->pid(r));
    return sum;
  };
  (void)::poll(nullptr, 0, 200);  // until the last of them sleeps
  const double before = total();
  (void)::poll(nullptr, 0, 2000);
  const double used = total() - before;
  std::printf("[  TIME    ] processor time of 2 s of waiting: %.3f s (bound 0.04 s)\n", used);
  EXPECT_LT(used, 0.2) << "something spins";
  group->signal(0, SIGKILL);
  ASSERT_EQ(group->wait(0), 128 + SIGKILL);
  expect_released(*group, 0, Code::kAborted, group->name_of(0) + " died", now_ns());
  print_longest("released", "1 s");
}

INSTANTIATE_TEST_SUITE_P(, FewCoresTest, testing::Values(1, 2),
                         [](const testing::TestParamInfo<int>& test) {
                           return "On" + std::to_string(test.param);
                         });

}  // namespace
}  // namespace npu::fault
