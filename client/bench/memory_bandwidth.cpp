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

constexpr size_t kFloats = 16u << 20;  // 64 MiB a thread: far beyond any L2, and the L3 share
constexpr size_t kStreams = 8;         // of one thread, as many as a collective of 8 ranks has

Line& line_at(std::vector<float>& buffer, size_t i) noexcept {
  return *reinterpret_cast<Line*>(buffer.data() + i);
}

/// One stream of lines, each read and written.
void one_stream(std::vector<float>& buffer) noexcept {
  for (size_t i = 0; i < kFloats; i += sizeof(Line) / sizeof(float)) line_at(buffer, i) += 1.0f;
}

/// The buffer as eight parts: a line of each is read, their sum written to each. More streams keep
/// more prefetchers busy, so on many machines this is the higher limit.
void eight_streams(std::vector<float>& buffer) noexcept {
  constexpr size_t kPart = kFloats / kStreams + 1024;  // off the 4 KiB grid, see aliasing
  for (size_t i = 0; i + kPart * (kStreams - 1) < kFloats; i += sizeof(Line) / sizeof(float)) {
    Line sum = line_at(buffer, i);
    for (size_t p = 1; p < kStreams; ++p) sum += line_at(buffer, p * kPart + i);
    for (size_t p = 0; p < kStreams; ++p) line_at(buffer, p * kPart + i) = sum;
  }
}

double round_of(std::vector<std::vector<float>>& buffers, void (*stream)(std::vector<float>&)) {
  const auto begin = Clock::now();
  std::vector<std::thread> pool;
  for (size_t t = 1; t < buffers.size(); ++t) {
    pool.emplace_back([&buffer = buffers[t], stream] { stream(buffer); });
  }
  stream(buffers[0]);
  for (auto& t : pool) t.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

double measure_memory_bandwidth(unsigned threads) {
  constexpr int kRounds = 12;
  std::vector<std::vector<float>> buffers(threads, std::vector<float>(kFloats, 0.0f));
  const double bytes = 2.0 * sizeof(float) * kFloats * threads;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    best = std::max(best, bytes / round_of(buffers, one_stream));
    best =
        std::max(best, bytes * (kFloats - 1024.0 * 7) / kFloats / round_of(buffers, eight_streams));
  }
  return best;
}

}  // namespace npu::client
