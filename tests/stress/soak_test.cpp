// The same thing a thousand times: what a daemon holds (descriptors, threads, memory) stays what it
// was after the first hundred.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "client/api/device.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

constexpr uint32_t kDevices = 8;
constexpr long kNoiseKib = 2048;  // of an allocator, in a thousand cycles
constexpr milliseconds kHang{60'000};

struct Size {
  long threads = 0, anonymous_kib = 0, shared_kib = 0;
  size_t descriptors = 0;
};

Size size_of(pid_t pid) {
  Size size;
  const std::string proc = "/proc/" + std::to_string(pid);
  std::ifstream status(proc + "/status");
  for (std::string line; std::getline(status, line);) {
    const auto number = [&line] { return std::stol(line.substr(line.find(':') + 1)); };
    if (line.starts_with("Threads:")) size.threads = number();
    if (line.starts_with("RssAnon:")) size.anonymous_kib = number();
    if (line.starts_with("RssShmem:")) size.shared_kib = number();
  }
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    ++size.descriptors;
  }
  return size;
}

class Soak : public testing::Test {
 protected:
  /// The size once everything of the dead is let go: segments are unmapped by a thread of their
  /// own.
  Size idle_size() {
    Size size = size_of(daemon_.pid());
    const auto end = Clock::now() + kHang;
    while (Clock::now() < end) {
      ::poll(nullptr, 0, 20);
      const Size again = size_of(daemon_.pid());
      const bool still =
          again.descriptors == size.descriptors && again.shared_kib == size.shared_kib;
      size = again;
      if (still && (baseline_.descriptors == 0 || size.descriptors <= baseline_.descriptors)) break;
    }
    return size;
  }

  void expect_flat(const Size& before, const Size& after) {
    std::printf(
        "threads %ld -> %ld, descriptors %zu -> %zu, anonymous %ld -> %ld KiB, shared %ld -> %ld "
        "KiB\n",
        before.threads, after.threads, before.descriptors, after.descriptors, before.anonymous_kib,
        after.anonymous_kib, before.shared_kib, after.shared_kib);
    EXPECT_EQ(after.threads, before.threads);
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_LE(after.anonymous_kib, before.anonymous_kib + kNoiseKib);
    EXPECT_LE(after.shared_kib, before.shared_kib + kNoiseKib);
  }

  void expect_whole_run_works() {
    const auto codes = test::wait_ranks(test::fork_ranks(daemon_.socket(), kDevices, all_reduce));
    for (const int code : codes) EXPECT_EQ(code, 0);
  }

  static int all_reduce(client::Device& device) {
    constexpr size_t kCount = 1024;
    auto* values = reinterpret_cast<float*>(device.arena().data());
    std::fill_n(values, kCount, static_cast<float>(device.rank() + 1));
    auto work =
        device.world().all_reduce(values, values, kCount, DType::kFloat32, ReduceOp::kSum, {});
    if (!work || !work->wait()) return 1;
    for (size_t i = 0; i < kCount; ++i) {
      if (values[i] != 36.0F) return 2;
    }
    return 0;
  }

  test::DaemonProcess daemon_;
  Size baseline_;
};

/// Attaches alone, says so, waits for its end.
[[noreturn]] void attach_and_wait(const std::string& socket, uint32_t device, int say) {
  auto options = test::attach_options(socket, 1, 0, "soak-" + std::to_string(device));
  options.device = device;
  options.arena_bytes = uint64_t{1} << 20;
  auto attached = client::Device::attach(options);
  // The one before it was killed a moment ago: a busy daemon may not know yet.
  for (int i = 0; i < 500 && !attached && attached.error().exit == Exit::kBusy; ++i) {
    ::poll(nullptr, 0, 10);
    attached = client::Device::attach(options);
  }
  const char byte = attached ? 'y' : 'n';
  if (::write(say, &byte, 1) != 1) ::_exit(2);
  for (;;) ::pause();
}

TEST_F(Soak, ThousandAttachedProcessesAreKilledAndTheDaemonIsTheSame) {
  constexpr int kCycles = 1000, kWarm = 100;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int attached = 0, early = 0;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    if (cycle == kWarm) baseline_ = idle_size();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd listen(ends[0]);
    UniqueFd say(ends[1]);
    const auto device = static_cast<uint32_t>(cycle) % kDevices;
    const pid_t pid = ::fork();
    if (pid == 0) attach_and_wait(daemon_.socket(), device, say.get());
    say.reset();
    // Every third dies at any moment of its way in, the others once they are there.
    const bool at_random = cycle % 3 == 0;
    pollfd ready{listen.get(), POLLIN, 0};
    const int limit = at_random ? static_cast<int>(random() % 6) : static_cast<int>(kHang.count());
    char byte = '-';
    if (::poll(&ready, 1, limit) == 1) {
      ASSERT_EQ(::read(listen.get(), &byte, 1), 1);
    }
    ASSERT_NE(byte, 'n') << "cycle " << cycle << ": the process before it is still there";
    if (!at_random) {
      ASSERT_EQ(byte, 'y') << "cycle " << cycle;
    }
    byte == 'y' ? ++attached : ++early;
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  }
  std::printf("%d killed when attached, %d on their way\n", attached, early);
  expect_flat(baseline_, idle_size());
  expect_whole_run_works();
}

TEST_F(Soak, TwoHundredRunsOfEightRanksLeaveNothing) {
  constexpr int kRuns = 200, kWarm = 20;
  for (int run = 0; run < kRuns; ++run) {
    if (run == kWarm) baseline_ = idle_size();
    const auto codes = test::wait_ranks(test::fork_ranks(daemon_.socket(), kDevices, all_reduce,
                                                         "short-" + std::to_string(run % 7)));
    for (uint32_t rank = 0; rank < kDevices; ++rank) {
      ASSERT_EQ(codes[rank], 0) << "run " << run << " rank " << rank;
    }
  }
  expect_flat(baseline_, idle_size());
}

// Each of them ends badly: a rank dies between two collectives.
TEST_F(Soak, HundredAbortedRunsLeaveNothing) {
  constexpr int kRuns = 100, kWarm = 20;
  const auto fragile = [](client::Device& device) {
    const int first = all_reduce(device);
    if (first != 0) return first;
    if (device.rank() == 3) ::kill(::getpid(), SIGKILL);
    return all_reduce(device) == 1 ? 76 : 3;
  };
  for (int run = 0; run < kRuns; ++run) {
    if (run == kWarm) baseline_ = idle_size();
    const auto codes =
        test::wait_ranks(test::fork_ranks(daemon_.socket(), kDevices, fragile, "fragile"));
    for (uint32_t rank = 0; rank < kDevices; ++rank) {
      ASSERT_EQ(codes[rank], rank == 3 ? 128 + SIGKILL : 76) << "run " << run << " rank " << rank;
    }
  }
  expect_flat(baseline_, idle_size());
  expect_whole_run_works();
}

}  // namespace
}  // namespace npu
