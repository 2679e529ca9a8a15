// How long an 8-byte all-reduce of one run takes while another run's of 1 GiB are executed: the two
// share the engine, slice by slice. Prints; asserts nothing.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "client/api/device.hpp"
#include "shm/base/units.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

struct Options {
  uint32_t small_ranks = 2, big_ranks = 4;
  uint64_t big_bytes = uint64_t{1} << 30;
  int rounds = 2000;
};

/// What the processes share.
struct Board {
  std::atomic<uint32_t> go{0}, big_ready{0}, stop{0}, failed{0};
  std::atomic<uint64_t> big_done{0};
};

Result<std::unique_ptr<client::Device>> attach(const std::string& socket, const char* run,
                                               uint32_t world, uint32_t rank, uint32_t first_device,
                                               uint64_t bytes) {
  return client::Device::attach({.socket = socket,
                                 .run = run,
                                 .run_key = "fairness",
                                 .world = world,
                                 .rank = rank,
                                 .device = first_device + rank,
                                 .arena_bytes = bytes});
}

Result<void> reduce(client::Device& device, float* data, uint64_t count) {
  NPU_TRY(auto work, device.world().all_reduce(data, data, count, DType::kFloat32, ReduceOp::kSum));
  NPU_TRY_VOID(work.wait());
  return {};
}

/// One all-reduce after the other until rank 0 is told to stop; the last element carries the wish.
Result<void> big_rank(const std::string& socket, const Options& o, uint32_t rank, Board& board) {
  while (board.go.load() == 0 && board.failed.load() == 0) ::usleep(1000);
  const uint64_t count = o.big_bytes / sizeof(float);
  NPU_TRY(const auto device,
          attach(socket, "big", o.big_ranks, rank, o.small_ranks, o.big_bytes + (1 << 20)));
  auto* data = reinterpret_cast<float*>(device->arena().data());
  for (;;) {
    data[count - 1] = rank == 0 && board.stop.load() != 0 ? 1.0F : 0.0F;
    NPU_TRY_VOID(reduce(*device, data, count));
    if (rank == 0) board.big_done.fetch_add(1), board.big_ready.store(1);
    if (data[count - 1] != 0) return device->detach();
  }
}

/// Times on rank 0, in microseconds, sorted.
std::vector<double> time_small(client::Device& device, int rounds) {
  auto* data = reinterpret_cast<float*>(device.arena().data());
  std::vector<double> us;
  us.reserve(static_cast<size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    data[0] = data[1] = 1;
    const uint64_t start = now_ns();
    if (!reduce(device, data, 2)) break;
    us.push_back(static_cast<double>(now_ns() - start) / 1e3);
  }
  std::ranges::sort(us);
  return us;
}

void print(const char* what, const std::vector<double>& us, const std::string& more) {
  if (us.empty()) return;
  const auto at = [&us](double q) {
    return us[static_cast<size_t>(q * static_cast<double>(us.size() - 1))];
  };
  std::printf("%-8s %8zu %10.1f %10.1f %10.1f  %s\n", what, us.size(), at(0.5), at(0.99), us.back(),
              more.c_str());
}

template <typename Body>
pid_t in_process(Board& board, const Body& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const Result<void> done = body();
  if (!done) {
    std::fprintf(stderr, "fairness: error: %s\n", done.error().message.c_str());
    board.failed.store(1);
    board.stop.store(1);
  }
  ::_exit(done ? 0 : 1);
}

/// The small run's other ranks do the same calls, alone and beside.
Result<void> small_rank(const std::string& socket, const Options& o, uint32_t rank, Board& board) {
  NPU_TRY(const auto device, attach(socket, "small", o.small_ranks, rank, 0, 1 << 20));
  const std::vector<double> alone = time_small(*device, o.rounds);
  if (rank == 0) board.go.store(1);
  while (board.big_ready.load() == 0 && board.failed.load() == 0) ::usleep(1000);
  const uint64_t before = board.big_done.load();
  const std::vector<double> beside = time_small(*device, o.rounds);
  const uint64_t big = board.big_done.load() - before;
  if (rank == 0) {
    std::printf("%-8s %8s %10s %10s %10s\n", "8 bytes", "calls", "p50 us", "p99 us", "max us");
    print("alone", alone, "");
    print("beside", beside,
          fmt::format("{} all-reduces of {} on {} ranks done meanwhile", big,
                      format_bytes(o.big_bytes), o.big_ranks));
  }
  (void)std::fflush(stdout);  // this process ends without it
  board.stop.store(1);
  return device->detach();
}

int run(const Options& o) {
  auto* board = static_cast<Board*>(
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  new (board) Board;
  test::DaemonProcess daemon;
  std::vector<pid_t> pids;
  for (uint32_t r = 0; r < o.small_ranks; ++r) {
    pids.push_back(in_process(*board, [&] { return small_rank(daemon.socket(), o, r, *board); }));
  }
  for (uint32_t r = 0; r < o.big_ranks; ++r) {
    pids.push_back(in_process(*board, [&] { return big_rank(daemon.socket(), o, r, *board); }));
  }
  int code = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    code |= status != 0 ? 1 : 0;
  }
  return code;
}

}  // namespace
}  // namespace npu

int main(int argc, char** argv) {
  npu::Options options;
  CLI::App app{"8-byte all-reduces of one run, alone and beside large ones of another"};
  app.add_option("--small-ranks", options.small_ranks, "ranks of the run that is timed (2)")
      ->check(CLI::Range(1, 7));
  app.add_option("--big-ranks", options.big_ranks, "ranks of the other (4)")
      ->check(CLI::Range(1, 7));
  app.add_option("--big-bytes", options.big_bytes, "bytes of its all-reduce (1 GiB)");
  app.add_option("--rounds", options.rounds, "all-reduces that are timed (2000)");
  CLI11_PARSE(app, argc, argv);
  return npu::run(options);
}
