// Every operation against a reference written here, for odd sizes, several types and all roots:
// ranks as threads.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using client::Device;
using client::Work;

constexpr uint64_t kCounts[] = {1, 7, 33, 4097, 20'011};
constexpr int32_t kGuard = 0x5ca1ab1e;

int32_t value(uint32_t rank, uint64_t i) {
  return static_cast<int32_t>(rank * 1'000'003u + i * 31u);
}

/// Send buffer of `parts` x count, receive buffer of `recv_parts` x count, guards around the
/// latter.
struct Buffers {
  int32_t* send;
  int32_t* recv;
};

Buffers prepare(Device& device, uint64_t send, uint64_t recv) {
  auto* base = reinterpret_cast<int32_t*>(device.arena().data());
  Buffers b{base + 3, base + 3 + send + 5};
  for (uint64_t i = 0; i < send; ++i) b.send[i] = value(device.rank(), i);
  for (uint64_t i = 0; i < recv; ++i) b.recv[i] = -1;
  b.recv[-1] = b.recv[recv] = kGuard;
  return b;
}

bool done(Result<Work> work) { return work && work->wait(); }

bool guards_hold(const Buffers& b, uint64_t recv) {
  return b.recv[-1] == kGuard && b.recv[recv] == kGuard;
}

int32_t sum_at(uint32_t world, uint64_t i) {
  uint32_t sum = 0;
  for (uint32_t r = 0; r < world; ++r) sum += static_cast<uint32_t>(value(r, i));
  return static_cast<int32_t>(sum);  // integers wrap
}

int rooted(Device& d, uint64_t n, uint32_t root) {
  auto& world = d.world();
  const uint32_t size = world.size();
  const bool me = d.rank() == root;
  Buffers b = prepare(d, n, n);
  if (!done(world.reduce(b.send, me ? b.recv : nullptr, n, DType::kInt32, ReduceOp::kSum, root)))
    return 1;
  for (uint64_t i = 0; i < n; ++i) {
    if (b.recv[i] != (me ? sum_at(size, i) : -1)) return 2;
  }
  b = prepare(d, n * size, n);
  if (!done(world.scatter(me ? b.send : nullptr, b.recv, n, DType::kInt32, root))) return 3;
  for (uint64_t i = 0; i < n; ++i) {
    if (b.recv[i] != value(root, d.rank() * n + i)) return 4;
  }
  if (!guards_hold(b, n)) return 5;
  b = prepare(d, n, n * size);
  if (!done(world.gather(b.send, me ? b.recv : nullptr, n, DType::kInt32, root))) return 6;
  for (uint64_t i = 0; i < n * size; ++i) {
    if (b.recv[i] != (me ? value(static_cast<uint32_t>(i / n), i % n) : -1)) return 7;
  }
  return guards_hold(b, n * size) ? 0 : 8;
}

int symmetric(Device& d, uint64_t n) {
  auto& world = d.world();
  const uint32_t size = world.size();
  Buffers b = prepare(d, n, n * size);
  if (!done(world.all_gather(b.send, b.recv, n, DType::kInt32))) return 11;
  for (uint64_t i = 0; i < n * size; ++i) {
    if (b.recv[i] != value(static_cast<uint32_t>(i / n), i % n)) return 12;
  }
  if (!guards_hold(b, n * size)) return 13;
  b = prepare(d, n * size, n);
  if (!done(world.reduce_scatter(b.send, b.recv, n, DType::kInt32, ReduceOp::kSum))) return 14;
  for (uint64_t i = 0; i < n; ++i) {
    if (b.recv[i] != sum_at(size, d.rank() * n + i)) return 15;
  }
  if (!guards_hold(b, n)) return 16;
  b = prepare(d, n * size, n * size);
  if (!done(world.all_to_all(b.send, b.recv, n, DType::kInt32))) return 17;
  for (uint64_t i = 0; i < n * size; ++i) {
    if (b.recv[i] != value(static_cast<uint32_t>(i / n), d.rank() * n + i % n)) return 18;
  }
  return guards_hold(b, n * size) ? 0 : 19;
}

int in_place(Device& d, uint64_t n) {
  auto& world = d.world();
  const uint32_t size = world.size();
  auto* all = reinterpret_cast<int32_t*>(d.arena().data()) + 1;
  for (uint64_t i = 0; i < n; ++i) all[d.rank() * n + i] = value(d.rank(), i);
  if (!done(world.all_gather(all + d.rank() * n, all, n, DType::kInt32))) return 21;
  for (uint64_t i = 0; i < n * size; ++i) {
    if (all[i] != value(static_cast<uint32_t>(i / n), i % n)) return 22;
  }
  for (uint64_t i = 0; i < n * size; ++i) all[i] = value(d.rank(), i);
  if (!done(world.reduce_scatter(all, all + d.rank() * n, n, DType::kInt32, ReduceOp::kSum)))
    return 23;
  for (uint64_t i = 0; i < n; ++i) {
    if (all[d.rank() * n + i] != sum_at(size, d.rank() * n + i)) return 24;
  }
  return 0;
}

int everything(Device& device) {
  for (const uint64_t n : kCounts) {
    for (uint32_t root = 0; root < device.world().size(); ++root) {
      if (const int code = rooted(device, n, root); code != 0) return code;
    }
    if (const int code = symmetric(device, n); code != 0) return code;
    if (const int code = in_place(device, n); code != 0) return code;
  }
  return 0;
}

class Ranks : public testing::TestWithParam<uint32_t> {};

TEST_P(Ranks, MatchTheReferenceForEveryRootSizeAndPlacement) {
  test::DaemonProcess daemon({"--engine-threads", "2"});
  for (const int code : test::run_threads(daemon.socket(), GetParam(), everything))
    EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(, Ranks, testing::Values(1u, 2u, 3u, 5u, 6u, 7u, 8u));

TEST(Operations, ABadRootIsRefusedOnEveryRank) {
  test::DaemonProcess daemon;
  const auto body = [](Device& d) {
    auto* data = reinterpret_cast<float*>(d.arena().data());
    auto work = d.world().broadcast(data, 1000, DType::kFloat32, 9);
    if (!work) return 1;
    const auto result = work->wait();
    if (result || result.error().message.find("root") == std::string::npos) return 2;
    return done(d.world().barrier()) ? 0 : 3;
  };
  for (const int code : test::run_threads(daemon.socket(), 3, body)) EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace npu
