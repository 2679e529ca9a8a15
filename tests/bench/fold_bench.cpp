// Time of one in-place fold of 8 ranks out of cache, against a plain loop and against the bandwidth
// of a 1:1 read/write stream (B_mem): the bound is 2NS/B_mem. Usage: fold_bench [rounds]
// [stagger_bytes] [mib_per_rank]. Rounds of all candidates are interleaved and medians and minima
// printed, because other programs share the memory bus.
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/collectives/kernels/reduce_kernels.hpp"

namespace npu::daemon {
namespace {

constexpr uint32_t kRanks = 8;
constexpr uint64_t kMiB = 1024 * 1024;

/// One memfd a rank, as the arenas are.
struct Buffers {
  std::array<std::byte*, kRanks> rank{};
  uint64_t bytes = 0;
};

Buffers map_buffers(uint64_t bytes, uint64_t stagger) {
  Buffers out{.bytes = bytes};
  for (uint32_t r = 0; r < kRanks; ++r) {
    const uint64_t length = bytes + kMiB;
    const int fd = memfd_create("fold_bench", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(length)) != 0) std::abort();
    void* p = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED) std::abort();
    close(fd);
    std::memset(p, 0,
                length);  // zeros stay zeros, whatever the dtype and however often they are added
    out.rank[r] = static_cast<std::byte*>(p) + r * stagger;
  }
  return out;
}

using SliceJob = std::function<void(const Buffers&, uint64_t offset, uint64_t bytes)>;

struct Candidate {
  std::string name;
  uint64_t slice;
  SliceJob job;
  std::array<std::vector<double>, 2> seconds;  // [threads - 1]
};

double run_once(const Buffers& buffers, const Candidate& c, int threads) {
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    for (uint64_t at = next.fetch_add(c.slice); at < buffers.bytes; at = next.fetch_add(c.slice)) {
      c.job(buffers, at, std::min(c.slice, buffers.bytes - at));
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Reads and writes every byte once, one rank after the other.
void stream(const Buffers& b, uint64_t at, uint64_t bytes) {
  for (std::byte* rank : b.rank) {
    auto* p = reinterpret_cast<uint64_t*>(rank + at);
    for (uint64_t i = 0; i < bytes / 8; ++i) p[i] ^= 1;
  }
}

void plain_loop(const Buffers& b, uint64_t at, uint64_t bytes) {
  std::array<float*, kRanks> p{};
  for (uint32_t r = 0; r < kRanks; ++r) p[r] = reinterpret_cast<float*>(b.rank[r] + at);
  for (uint64_t i = 0; i < bytes / 4; ++i) {
    float sum = p[0][i];
    for (uint32_t r = 1; r < kRanks; ++r) sum += p[r][i];
    for (uint32_t r = 0; r < kRanks; ++r) p[r][i] = sum;
  }
}

SliceJob fold_job(const ReduceKernel& kernel, DType dtype) {
  return [&kernel, dtype](const Buffers& b, uint64_t at, uint64_t bytes) {
    std::array<std::byte*, kRanks> p{};
    std::array<const std::byte*, kRanks> src{};
    for (uint32_t r = 0; r < kRanks; ++r) src[r] = p[r] = b.rank[r] + at;
    ByProducts by;
    kernel.fold({.src = src.data(),
                 .ranks = kRanks,
                 .dst = p.data(),
                 .dst_count = kRanks,
                 .count = bytes / dtype_size(dtype)},
                by);
  };
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> out;
  out.push_back({"stream 1:1", 256 * 1024, stream, {}});
  out.push_back({"plain loop fp32", 64 * 1024, plain_loop, {}});
  for (const uint64_t slice : {16, 32, 64, 128, 256}) {
    out.push_back({fmt::format("fold fp32 sum {:3} KiB", slice),
                   slice * 1024,
                   fold_job(reduce_kernel(DType::kFloat32, ReduceOp::kSum), DType::kFloat32),
                   {}});
  }
  const auto add = [&out](const char* name, DType dtype, ReduceOp op, Accumulate mode) {
    out.push_back({name, 32 * 1024, fold_job(reduce_kernel(dtype, op, mode), dtype), {}});
  };
  add("fold fp16 mean", DType::kFloat16, ReduceOp::kMean, Accumulate::kDefault);
  add("fold bf16 mean", DType::kBFloat16, ReduceOp::kMean, Accumulate::kDefault);
  add("fold fp16 max", DType::kFloat16, ReduceOp::kMax, Accumulate::kDefault);
  add("fold fp16 mean strict", DType::kFloat16, ReduceOp::kMean, Accumulate::kStrict);
  return out;
}

}  // namespace
}  // namespace npu::daemon

int main(int argc, char** argv) {
  using namespace npu::daemon;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const uint64_t stagger = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const uint64_t bytes = (argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 25) * kMiB;
  if (stagger * kRanks > kMiB || bytes == 0) return 64;
  const Buffers buffers = map_buffers(bytes, stagger);
  std::vector<Candidate> all = candidates();
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& c : all) {
      for (int threads = 1; threads <= 2; ++threads) {
        c.seconds[static_cast<size_t>(threads - 1)].push_back(run_once(buffers, c, threads));
      }
    }
  }
  fmt::print("{} ranks x {} MiB in place, {} kernels, {} rounds, stagger {} B; traffic 2NS\n",
             kRanks, bytes / kMiB, reduce_kernel_level(), rounds, stagger);
  for (Candidate& c : all) {
    fmt::print("{:24}", c.name);
    for (std::vector<double>& s : c.seconds) {
      std::sort(s.begin(), s.end());
      const double median = s[s.size() / 2];
      const double traffic = 2.0 * kRanks * static_cast<double>(bytes) * 1e-9;
      fmt::print("  {} thread(s): median {:6.2f} ms {:5.1f} GB/s, best {:6.2f} ms {:5.1f} GB/s",
                 &s - c.seconds.data() + 1, median * 1e3, traffic / median, s[0] * 1e3,
                 traffic / s[0]);
    }
    fmt::print("\n");
  }
  return 0;
}
