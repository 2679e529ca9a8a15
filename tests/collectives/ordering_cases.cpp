// Ordering and concurrency: submission order, streams, threads, back-pressure, barriers.
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "shm/base/clock.hpp"
#include "tests/collectives/rank_body.hpp"

namespace npu::test {
namespace {

using client::CollectiveOptions;
using client::Stream;
using client::Work;

/// The whole arena as one small array, so that random operations often meet.
constexpr uint64_t kWords = 512;

/// One random operation, the same on all ranks: replayed on a model of all ranks' memories.
struct Step {
  uint32_t kind, root;
  uint64_t count, send, recv;
};

Step random_step(std::mt19937_64& rng, uint32_t n) {
  Step s{};
  s.kind = static_cast<uint32_t>(rng() % 7);
  s.root = static_cast<uint32_t>(rng() % n);
  s.count = rng() % 24;
  const uint64_t part = s.count * n;
  s.send = rng() % (kWords / 2 - part);
  s.recv = kWords / 2 + rng() % (kWords / 2 - part);
  return s;
}

using Memory = std::vector<std::vector<uint32_t>>;

void model_step(Memory& m, const Step& s) {
  const auto n = static_cast<uint32_t>(m.size());
  const Memory before = m;
  const auto sum = [&](uint64_t at) {
    uint32_t total = 0;
    for (const auto& rank : before) total += rank[at];
    return total;
  };
  for (uint32_t r = 0; r < n; ++r) {
    for (uint64_t i = 0; i < s.count; ++i) {
      uint32_t* out = &m[r][s.recv + i];
      switch (s.kind) {
        case 0:
          *out = sum(s.send + i);
          break;
        case 1:
          if (r == s.root) *out = sum(s.send + i);
          break;
        case 2:
          m[r][s.send + i] = before[s.root][s.send + i];
          break;
        case 3:
          for (uint32_t p = 0; p < n; ++p) m[r][s.recv + p * s.count + i] = before[p][s.send + i];
          break;
        case 4:
          *out = sum(s.send + r * s.count + i);
          break;
        case 5:
          *out = before[s.root][s.send + r * s.count + i];
          break;
        default:
          for (uint32_t p = 0; p < n; ++p)
            m[r][s.recv + p * s.count + i] = before[p][s.send + r * s.count + i];
      }
    }
  }
}

Result<Work> submit_step(Rank& rank, uint32_t* data, const Step& s) {
  auto& w = rank.world;
  uint32_t *send = data + s.send, *recv = data + s.recv;
  const CollectiveOptions options{
      .algorithm = s.count % 2 == 0 ? shm::Algorithm::kDirect : shm::Algorithm::kRing,
      .timeout = {}};
  switch (s.kind) {
    case 0:
      return w.all_reduce(send, recv, s.count, DType::kUint32, ReduceOp::kSum, options);
    case 1:
      return w.reduce(send, recv, s.count, DType::kUint32, ReduceOp::kSum, s.root, options);
    case 2:
      return w.broadcast(send, s.count, DType::kUint32, s.root, options);
    case 3:
      return w.all_gather(send, recv, s.count, DType::kUint32, options);
    case 4:
      return w.reduce_scatter(send, recv, s.count, DType::kUint32, ReduceOp::kSum, options);
    case 5:
      return w.scatter(send, recv, s.count, DType::kUint32, s.root, options);
    default:
      return w.all_to_all(send, recv, s.count, DType::kUint32, options);
  }
}

/// Operations whose small payload travels in the descriptor take their input when they are called
/// and give their result to wait(), so they do not see what is outstanding before them.
bool by_value(const Step& s) {
  return (s.kind == 0 || s.kind == 2) && s.count * sizeof(uint32_t) <= shm::kInlineBytes;
}

std::string random_operations(Rank& rank, int steps) {
  const uint32_t n = rank.size();
  auto* data = reinterpret_cast<uint32_t*>(rank.arena.data());
  Memory model(n, std::vector<uint32_t>(kWords));
  for (uint32_t r = 0; r < n; ++r) {
    for (uint64_t i = 0; i < kWords; ++i) model[r][i] = static_cast<uint32_t>(r * 1000 + i);
  }
  std::memcpy(data, model[rank.id()].data(), kWords * 4);
  std::mt19937_64 rng(20261130 + n);
  std::vector<Work> works;
  const auto drain = [&] {
    bool fine = true;
    for (auto& work : works) fine = work.wait().has_value() && fine;
    works.clear();
    return fine;
  };
  for (int i = 0; i < steps; ++i) {
    const Step s = random_step(rng, n);
    if (by_value(s)) EXPECT_RANK(drain());
    auto work = submit_step(rank, data, s);
    EXPECT_RANK(work, "step {}: {}", i, work.error().message);
    works.push_back(std::move(*work));
    model_step(model, s);
    if (by_value(s) || works.size() == 40) EXPECT_RANK(drain(), "step {}", i);
    if (i % 500 == 499) {
      EXPECT_RANK(drain());
      EXPECT_RANK(std::memcmp(data, model[rank.id()].data(), kWords * 4) == 0, "after step {}", i);
    }
  }
  EXPECT_RANK(drain());
  EXPECT_RANK(std::memcmp(data, model[rank.id()].data(), kWords * 4) == 0);
  return {};
}

// 24
std::string few_random_operations(Rank& rank) { return random_operations(rank, 4000); }

// 25: the call returns before its peers have come; after wait() plain loads see the result.
std::string calls_return_at_once(Rank& rank) {
  auto* data = reinterpret_cast<int32_t*>(rank.arena.data());
  for (int round = 0; round < 50; ++round) {
    constexpr uint64_t kCount = 5000;
    for (uint64_t i = 0; i < kCount; ++i) data[i] = round;
    EXPECT_RANK(done(rank.world.barrier()));
    auto work = rank.world.all_reduce(data, data, kCount, DType::kInt32, ReduceOp::kSum);
    EXPECT_RANK(work);
    if (rank.id() == 0) {
      auto early = work->wait(Deadline::after(milliseconds(1)));  // either is fine, nothing is lost
      EXPECT_RANK(early || early.error().code == Code::kDeadlineExceeded);
      EXPECT_RANK(early || work->valid());
    }
    if (work->valid()) EXPECT_RANK(work->wait());
    for (uint64_t i = 0; i < kCount; ++i) {
      EXPECT_RANK(data[i] == round * static_cast<int32_t>(rank.size()), "round {}", round);
    }
  }
  return {};
}

// 26: two threads, two streams, one communicator.
std::string two_threads(Rank& rank) {
  std::atomic<int> bad{0};
  const auto hammer = [&](uint8_t stream) {
    for (int i = 0; i < 300; ++i) {
      double x = 1;
      auto work = rank.world.all_reduce(&x, &x, 1, DType::kFloat64, ReduceOp::kSum,
                                        {.timeout = {}, .stream = Stream{stream}});
      if (!work || !work->wait() || x != rank.size()) ++bad;
    }
  };
  std::thread other([&] { hammer(1); });
  hammer(2);
  other.join();
  EXPECT_RANK(bad == 0, "{} of 600", bad.load());
  return {};
}

// Streams of one rank do not wait for each other; within one they run in order.
std::string streams_are_independent(Rank& rank) {
  auto half = rank.world.split(static_cast<int32_t>(rank.id() % 2), 0);
  EXPECT_RANK(half && *half != nullptr);
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  std::vector<Work> works;
  for (int i = 0; i < 100; ++i) {
    float* at = data + i * 64;
    for (int k = 0; k < 64; ++k) at[k] = 1;
    auto& comm = i % 2 == 0 ? rank.world : **half;
    auto work = comm.all_reduce(at, at, 64, DType::kFloat32, ReduceOp::kSum,
                                {.timeout = {}, .stream = Stream{static_cast<uint8_t>(i % 2)}});
    EXPECT_RANK(work);
    works.push_back(std::move(*work));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_RANK(works[static_cast<size_t>(i)].wait());
    const uint32_t size = i % 2 == 0 ? rank.size() : (*half)->size();
    EXPECT_RANK(data[i * 64 + 63] == static_cast<float>(size), "operation {}", i);
  }
  EXPECT_RANK((*half)->destroy());
  return {};
}

// 30: thousands without a wait: refused when the ring is full, and nothing lost.
std::string back_pressure(Rank& rank) {
  std::vector<Work> works;
  uint64_t completed = 0, refused = 0;
  auto* data = reinterpret_cast<uint64_t*>(rank.arena.data());
  for (uint64_t i = 0; i < 5000; ++i) {
    uint64_t* at = data + (i % 300) * 8;
    for (int k = 0; k < 8; ++k) at[k] = i;
    for (;;) {
      auto work = rank.world.all_reduce(at, at, 8, DType::kUint64, ReduceOp::kMax);
      if (work) {
        works.push_back(std::move(*work));
        break;
      }
      EXPECT_RANK(work.error().code == Code::kResourceExhausted, "{}", work.error().message);
      ++refused;
      for (auto& w : works) {
        EXPECT_RANK(w.wait());
        ++completed;
      }
      works.clear();
    }
  }
  for (auto& w : works) {
    EXPECT_RANK(w.wait());
    ++completed;
  }
  EXPECT_RANK(completed == 5000 && refused > 0, "{} completed, {} refused", completed, refused);
  return {};
}

// 32: nobody leaves a barrier before everybody has entered, by timestamps that all see.
std::string barrier_holds_everybody(Rank& rank, int rounds) {
  std::array<uint64_t, 2> mine{};
  for (int i = 0; i < rounds; ++i) {
    const uint64_t entered = now_ns();
    EXPECT_RANK(done(rank.world.barrier()));
    const uint64_t left = now_ns();
    if (i % 50 != 0) continue;
    mine = {entered, UINT64_MAX - left};
    EXPECT_RANK(
        done(rank.world.all_reduce(mine.data(), mine.data(), 2, DType::kUint64, ReduceOp::kMax)));
    const uint64_t last_in = mine[0], first_out = UINT64_MAX - mine[1];
    EXPECT_RANK(last_in <= first_out, "round {}", i);
  }
  return {};
}

std::string some_barriers(Rank& rank) { return barrier_holds_everybody(rank, 3000); }

// 42
std::string suspend_and_resume(Rank& rank) {
  for (int i = 0; i < 20; ++i) {
    if (rank.id() == static_cast<uint32_t>(i) % rank.size()) {
      rank.world.suspend();
      EXPECT_RANK(says(error_of(rank.world.barrier()), Code::kFailedPrecondition, "suspended"));
      rank.world.resume();
    }
    uint32_t one = 1;
    EXPECT_RANK(done(rank.world.all_reduce(&one, &one, 1, DType::kUint32, ReduceOp::kSum)));
    EXPECT_RANK(one == rank.size());
  }
  return {};
}

}  // namespace

std::string many_random_operations(Rank& rank) { return random_operations(rank, 100'000); }
std::string many_barriers(Rank& rank) { return barrier_holds_everybody(rank, 100'000); }

std::vector<Case> ordering_cases() {
  return {{"RandomOperationsEqualASequentialModel", "24", {1, 2, 3, 5, 8}, few_random_operations},
          {"CallsReturnAtOnceAndWaitShowsTheResult", "25", {2, 8}, calls_return_at_once},
          {"TwoThreadsAndStreamsOnOneCommunicatorAreSafe", "26", {3, 8}, two_threads},
          {"StreamsAreIndependent", "26 29", {4, 8}, streams_are_independent},
          {"BackPressureLosesNothing", "30", {2, 8}, back_pressure},
          {"BarrierHoldsEverybody", "32", {2, 8}, some_barriers},
          {"SuspendedCommunicatorsRefuseAndResumeInSequence", "42", {2, 5}, suspend_and_resume}};
}

}  // namespace npu::test
