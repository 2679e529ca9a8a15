#include "client/bench/memory_bandwidth.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "shm/base/clock.hpp"

namespace npu::client {
namespace {

// One line at a time: without this GCC adds floats one by one at -O2, and the loop, not the memory,
// is what is measured.
typedef float Line __attribute__((vector_size(64), aligned(4), may_alias));

void stream(std::vector<float>& buffer) noexcept {
  constexpr size_t kFloats = sizeof(Line) / sizeof(float);
  for (size_t i = 0; i + kFloats <= buffer.size(); i += kFloats) {
    auto* line = reinterpret_cast<Line*>(buffer.data() + i);
    *line += 1.0f;  // one read and one write
  }
}

}  // namespace

double measure_memory_bandwidth(unsigned threads) {
  constexpr size_t kFloats = 16u << 20;  // 64 MiB a thread: far beyond any L2, and the L3 share
  constexpr int kRounds = 15;
  std::vector<std::vector<float>> buffers(threads, std::vector<float>(kFloats, 1.0f));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    std::vector<std::thread> pool;
    for (size_t t = 1; t < buffers.size(); ++t) {
      pool.emplace_back([&buffer = buffers[t]] { stream(buffer); });
    }
    stream(buffers[0]);
    for (auto& t : pool) t.join();
    const double s = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * sizeof(float) * kFloats * threads / s);
  }
  return best;
}

}  // namespace npu::client
