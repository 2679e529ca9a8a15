// What happens to the others when a rank dies, stalls or leaves, and when the daemon dies: real
// processes, real signals.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <chrono>

#include "client/api/admin.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using client::Device;
using std::chrono::steady_clock;
using test::DaemonProcess;

/// Times depend on who else uses the machine: they are printed, and only a hang fails.
void report(const char* what, double seconds) {
  std::printf("[  TIME    ] %s: %.3f s\n", what, seconds);
  EXPECT_LT(seconds, 10.0) << what;
}

/// Barriers until something fails; 0 if the failure is `code` and names `needle`.
int barriers_until(Device& device, Code code, const std::string& needle) {
  for (;;) {
    auto work = device.world().barrier({.timeout = milliseconds(2000)});
    auto result =
        work ? work->wait() : Result<client::CollectiveResult>(tl::unexpected(work.error()));
    if (result) continue;
    if (result.error().code == code && result.error().message.find(needle) != std::string::npos)
      return 0;
    std::fprintf(stderr, "rank %u: %s\n", device.rank(), result.error().message.c_str());
    return 1;
  }
}

void wait_until_running(const std::string& socket, uint64_t collectives) {
  for (int i = 0; i < 2000; ++i) {
    auto info = client::query_info(socket);
    if (info && !info->runs.empty() && info->runs[0].collectives >= collectives) return;
    ::poll(nullptr, 0, 5);
  }
  FAIL() << "the run did not start";
}

int busy_devices(const std::string& socket) {
  const auto info = client::query_info(socket);
  if (!info) return -1;
  int busy = 0;
  for (const auto& device : info->devices) busy += device.state == "busy" ? 1 : 0;
  return busy;
}

TEST(Death, SurvivorsAreReleasedWithinHalfASecondAndTheCulpritIsNamed) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 8, [](Device& d) {
    return barriers_until(d, Code::kAborted, "rank 3 (pid");
  });
  wait_until_running(daemon.socket(), 100);
  const auto before = steady_clock::now();
  ::kill(pids[3], SIGKILL);
  const auto codes = test::wait_ranks(pids);
  const double seconds = std::chrono::duration<double>(steady_clock::now() - before).count();
  for (uint32_t r = 0; r < 8; ++r) EXPECT_EQ(codes[r], r == 3 ? 128 + SIGKILL : 0) << "rank " << r;
  report("released", seconds);  // the promise is half a second
  EXPECT_EQ(busy_devices(daemon.socket()), 0);
  // The same devices and the same name serve the next run.
  const auto next = test::wait_ranks(test::fork_ranks(daemon.socket(), 8, [](Device& d) {
    auto work = d.world().barrier();
    return work && work->wait() ? 0 : 1;
  }));
  for (const int code : next) EXPECT_EQ(code, 0);
}

TEST(Stall, AStoppedRankIsNamedAtTheDeadlineAndWakesUpEvicted) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 4, [](Device& d) {
    return barriers_until(d, Code::kDeadlineExceeded, "rank 2");
  });
  wait_until_running(daemon.socket(), 50);
  ::kill(pids[2], SIGSTOP);
  const auto before = steady_clock::now();
  const auto others = test::wait_ranks({pids[0], pids[1], pids[3]});
  const double seconds = std::chrono::duration<double>(steady_clock::now() - before).count();
  for (const int code : others) EXPECT_EQ(code, 0);
  report("stall named", seconds);
  EXPECT_GT(seconds, 1.5);
  ::kill(pids[2], SIGCONT);
  EXPECT_EQ(test::wait_ranks({pids[2]})[0], 0);
}

TEST(Leave, ACollectiveThatNeedsARankThatLeftFailsAtOnce) {
  DaemonProcess daemon;
  const auto codes = test::wait_ranks(test::fork_ranks(daemon.socket(), 3, [](Device& d) {
    auto all_here = d.world().barrier();
    if (!all_here || !all_here->wait()) return 2;
    if (d.rank() == 1) return 0;  // run_rank detaches
    return barriers_until(d, Code::kAborted, "rank 1 has left");
  }));
  for (const int code : codes) EXPECT_EQ(code, 0);
}

TEST(DaemonDeath, EveryRankEndsWithinASecondWithTheDaemonLostError) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 8, [](Device& d) {
    return barriers_until(d, Code::kUnavailable, "is gone");
  });
  wait_until_running(daemon.socket(), 100);
  const auto before = steady_clock::now();
  daemon.stop(SIGKILL);
  for (const int code : test::wait_ranks(pids)) EXPECT_EQ(code, 0);
  report("all ranks gone", std::chrono::duration<double>(steady_clock::now() - before).count());
}

TEST(DaemonStop, SigtermTellsTheRanksAndExitsZero) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 4, [](Device& d) {
    return barriers_until(d, Code::kUnavailable, "shutting down");
  });
  wait_until_running(daemon.socket(), 100);
  EXPECT_EQ(daemon.stop(SIGTERM), 0);
  for (const int code : test::wait_ranks(pids)) EXPECT_EQ(code, 0);
}

TEST(Busy, AHeldDeviceIsRefusedWithTheHoldersName) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(
      daemon.socket(), 1, [](Device& d) { return barriers_until(d, Code::kAborted, "never"); },
      "holder");
  wait_until_running(daemon.socket(), 1);
  const auto sut = client::Device::attach(test::attach_options(daemon.socket(), 1, 0, "other"));
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBusy);
  EXPECT_NE(sut.error().message.find("pid " + std::to_string(pids[0])), std::string::npos)
      << sut.error().message;
  ::kill(pids[0], SIGKILL);
  (void)test::wait_ranks(pids);
}

TEST(Join, AMissingRankIsNamedAtTheJoinTimeout) {
  DaemonProcess daemon;
  auto options = test::attach_options(daemon.socket(), 2, 0);
  options.join_timeout = milliseconds(300);
  const auto sut = client::Device::attach(options);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kDeadlineExceeded);
  EXPECT_NE(sut.error().message.find("rank(s) 1 of 2"), std::string::npos) << sut.error().message;
}

TEST(Memory, MoreThanTheDeviceHasIsRefusedBeforeAnyAllocation) {
  DaemonProcess daemon;
  auto options = test::attach_options(daemon.socket(), 1, 0);
  options.arena_bytes = uint64_t{1} << 40;
  const auto sut = client::Device::attach(options);
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().code, Code::kResourceExhausted);
  EXPECT_NE(sut.error().message.find("the limit is 4.0 GiB"), std::string::npos)
      << sut.error().message;
}

TEST(Idle, EightWaitingRanksCostUnderOnePercentOfACore) {
  DaemonProcess daemon;
  const auto pids = test::fork_ranks(daemon.socket(), 8, [](Device& d) {
    if (d.rank() == 0) return barriers_until(d, Code::kAborted, "never");
    return barriers_until(d, Code::kAborted, "rank 0 (pid");
  });
  wait_until_running(daemon.socket(), 10);
  ::kill(pids[0], SIGSTOP);  // seven ranks now wait in a barrier
  const auto cpu_of = [](pid_t pid) {
    timespec ts{};
    clockid_t clock = 0;
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &ts) != 0) return 0.0;
    return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) * 1e-9;
  };
  const auto total = [&] {
    double sum = cpu_of(daemon.pid());
    for (const pid_t pid : pids) sum += cpu_of(pid);
    return sum;
  };
  ::poll(nullptr, 0, 100);
  const double before = total();
  ::poll(nullptr, 0, 1500);
  const double used = total() - before;
  report("processor time of 1.5 s", used);  // the promise is 1 %, 0.015 s
  EXPECT_LT(used, 0.075) << "something spins";
  ::kill(pids[0], SIGKILL);
  (void)test::wait_ranks(pids);
}

}  // namespace
}  // namespace npu
