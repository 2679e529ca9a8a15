// All-reduce, broadcast and barrier end to end: a real daemon, ranks as threads of this program and
// as processes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using client::CollectiveOptions;
using client::Device;
using test::DaemonProcess;

float value(uint32_t rank, uint64_t i, uint64_t salt) {
  uint64_t x = (rank * 1000003 + i + (salt << 32)) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<float>(static_cast<double>((x ^ (x >> 27)) >> 11) * 0x1p-52 - 1.0);
}

/// Ascending-rank fold in fp32: the published order.
float expected_sum(uint32_t world, uint64_t i, uint64_t salt) {
  float sum = value(0, i, salt);
  for (uint32_t r = 1; r < world; ++r) sum += value(r, i, salt);
  return sum;
}

int check_all_reduce(Device& device, uint64_t count, ReduceOp op, shm::Algorithm algorithm,
                     bool in_place, uint64_t salt) {
  auto* base = reinterpret_cast<float*>(device.arena().data());
  float* send = base + 64 + salt % 5;
  float* recv = in_place ? send : send + count + 64;
  for (uint64_t i = 0; i < count; ++i) send[i] = value(device.rank(), i, salt);
  send[-1] = send[count] = recv[-1] = recv[count] = 12345.0f;
  auto work =
      device.world().all_reduce(send, recv, count, DType::kFloat32, op, {.algorithm = algorithm});
  if (!work) return 1;
  auto result = work->wait();
  if (!result) {
    std::fprintf(stderr, "rank %u: %s\n", device.rank(), result.error().message.c_str());
    return 2;
  }
  const uint32_t world = device.world().size();
  for (uint64_t i = 0; i < count; ++i) {
    float want = expected_sum(world, i, salt);
    if (op == ReduceOp::kMean) want /= static_cast<float>(world);
    if (std::memcmp(&recv[i], &want, sizeof(want)) != 0) {
      std::fprintf(stderr, "rank %u count %lu algo %d element %lu: %g, expected %g\n",
                   device.rank(), count, static_cast<int>(algorithm), i,
                   static_cast<double>(recv[i]), static_cast<double>(want));
      return 3;
    }
  }
  return send[-1] == 12345.0f && recv[count] == 12345.0f ? 0 : 4;
}

int all_sizes(Device& device) {
  uint64_t salt = 0;
  for (const uint64_t count :
       {0ul, 1ul, 7ul, 10ul, 11ul, 33ul, 1023ul, 4097ul, 16384ul, 16385ul, 200'003ul}) {
    for (const auto algorithm : {shm::Algorithm::kDirect, shm::Algorithm::kRing}) {
      for (const auto op : {ReduceOp::kSum, ReduceOp::kMean}) {
        for (const bool in_place : {true, false}) {
          if (const int code = check_all_reduce(device, count, op, algorithm, in_place, ++salt);
              code != 0)
            return code;
        }
      }
    }
  }
  return 0;
}

class Worlds : public testing::TestWithParam<uint32_t> {};

TEST_P(Worlds, AllReduceOfThreadsMatchesTheAscendingFold) {
  DaemonProcess daemon({"--engine-threads", "2"});
  for (const int code : test::run_threads(daemon.socket(), GetParam(), all_sizes))
    EXPECT_EQ(code, 0);
}

TEST_P(Worlds, AllReduceOfProcessesMatchesTheAscendingFold) {
  DaemonProcess daemon({"--engine-threads", GetParam() % 2 == 0 ? "1" : "3"});
  for (const int code : test::wait_ranks(test::fork_ranks(daemon.socket(), GetParam(), all_sizes)))
    EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(, Worlds, testing::Values(1u, 2u, 3u, 5u, 8u));

TEST(Broadcast, EveryRootReachesEveryRank) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    auto* data = reinterpret_cast<uint32_t*>(device.arena().data());
    for (uint32_t root = 0; root < device.world().size(); ++root) {
      for (const uint64_t count : {3ul, 5000ul, 100'001ul}) {
        for (uint64_t i = 0; i < count; ++i)
          data[i] = device.rank() * 1'000'000u + static_cast<uint32_t>(i);
        auto work = device.world().broadcast(data, count, DType::kUint32, root);
        if (!work || !work->wait()) return 1;
        for (uint64_t i = 0; i < count; ++i) {
          if (data[i] != root * 1'000'000u + i) return 2;
        }
      }
    }
    return 0;
  };
  for (const int code : test::run_threads(daemon.socket(), 4, body)) EXPECT_EQ(code, 0);
}

TEST(Work, ManyOutstandingOperationsCompleteInOrder) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    auto* data = reinterpret_cast<float*>(device.arena().data());
    std::vector<client::Work> works;
    for (int i = 0; i < 200; ++i) {
      float* at = data + i * 100;
      for (int k = 0; k < 100; ++k) at[k] = static_cast<float>(i);
      auto work = device.world().all_reduce(at, at, 100, DType::kFloat32, ReduceOp::kSum);
      if (!work) return 1;
      works.push_back(std::move(*work));
    }
    for (int i = 0; i < 200; ++i) {
      if (!works[static_cast<size_t>(i)].wait()) return 2;
      if (data[i * 100 + 99] != static_cast<float>(i) * 4) return 3;
    }
    return 0;
  };
  for (const int code : test::run_threads(daemon.socket(), 4, body)) EXPECT_EQ(code, 0);
}

// A helper thread that is held up in one ring must not touch the next one's slices with the old
// one's buffers.
TEST(Work, RingsBackToBackKeepTheirBuffersApart) {
  DaemonProcess daemon({"--engine-threads", "4"});
  const auto body = [](Device& device) {
    auto* data = reinterpret_cast<float*>(device.arena().data());
    for (int round = 0; round < 40; ++round) {
      std::vector<client::Work> works;
      for (int i = 0; i < 50; ++i) {
        float* at = data + i * 1000;
        const auto count = static_cast<uint64_t>(11 + 7 * i);
        for (uint64_t k = 0; k < count; ++k) at[k] = static_cast<float>(i + 1);
        auto work = device.world().all_reduce(at, at, count, DType::kFloat32, ReduceOp::kSum,
                                              {.algorithm = shm::Algorithm::kRing});
        if (!work) return 1;
        works.push_back(std::move(*work));
      }
      for (int i = 0; i < 50; ++i) {
        if (!works[static_cast<size_t>(i)].wait()) return 2;
        for (int k = 0; k < 11 + 7 * i; ++k) {
          if (data[i * 1000 + k] != static_cast<float>(5 * (i + 1))) return 3;
        }
      }
    }
    return 0;
  };
  for (const int code : test::run_threads(daemon.socket(), 5, body)) EXPECT_EQ(code, 0);
}

TEST(Work, FullRingRefusesAndLosesNothing) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    std::vector<client::Work> works;
    bool refused = false;
    for (uint32_t i = 0; i < shm::kQueueDepth + 1; ++i) {
      auto work = device.world().barrier();
      if (work) {
        works.push_back(std::move(*work));
      } else {
        refused = work.error().code == Code::kResourceExhausted;
      }
    }
    for (auto& work : works) {
      if (!work.wait()) return 1;
    }
    auto again = device.world().barrier();
    if (!again || !again->wait()) return 2;
    return refused && works.size() == shm::kQueueDepth ? 0 : 3;
  };
  for (const int code : test::run_threads(daemon.socket(), 2, body)) EXPECT_EQ(code, 0);
}

TEST(Work, AbandonedHandlesGiveTheirSlotsBack) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    for (uint32_t i = 0; i < 3 * shm::kQueueDepth; ++i) {
      if (i % 100 == 99) {
        auto work = device.world().barrier();
        if (!work || !work->wait()) return 1;
      } else if (!device.world().barrier()) {
        return 2;
      }
    }
    return 0;
  };
  for (const int code : test::run_threads(daemon.socket(), 2, body)) EXPECT_EQ(code, 0);
}

TEST(Work, TwoThreadsOnOneCommunicatorAreSafe) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    std::atomic<int> bad{0};
    const auto hammer = [&] {
      for (int i = 0; i < 300; ++i) {
        float x = 1.0f;
        auto work = device.world().all_reduce(&x, &x, 1, DType::kFloat32, ReduceOp::kSum);
        if (!work || !work->wait() || x != static_cast<float>(device.world().size())) ++bad;
      }
    };
    std::thread other(hammer);
    hammer();
    other.join();
    return bad.load();
  };
  for (const int code : test::run_threads(daemon.socket(), 4, body)) EXPECT_EQ(code, 0);
}

TEST(ByProducts, FoundInfReachesEveryRankAndSumOfSquaresIsExact) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    auto* data = reinterpret_cast<float*>(device.arena().data());
    for (const auto algorithm : {shm::Algorithm::kDirect, shm::Algorithm::kRing}) {
      for (int i = 0; i < 50'000; ++i) data[i] = 1.0f;
      auto clean = device.world().all_reduce(data, data, 50'000, DType::kFloat32, ReduceOp::kSum,
                                             {.algorithm = algorithm, .sum_squares = true});
      if (!clean) return 1;
      auto result = clean->wait();
      if (!result || result->found_inf || result->sum_squares != 16.0 * 50'000) return 2;
      if (device.rank() == 2) data[40'000] = INFINITY;
      auto bad = device.world().all_reduce(data, data, 50'000, DType::kFloat32, ReduceOp::kSum,
                                           {.algorithm = algorithm});
      if (!bad) return 3;
      auto flagged = bad->wait();
      if (!flagged || !flagged->found_inf) return 4;
    }
    return 0;
  };
  for (const int code : test::run_threads(daemon.socket(), 4, body)) EXPECT_EQ(code, 0);
}

TEST(Mismatch, EveryRankLearnsFieldAndRanksAndTheNextOperationWorks) {
  DaemonProcess daemon;
  const auto body = [](Device& device) {
    auto* data = reinterpret_cast<float*>(device.arena().data());
    for (int i = 0; i < 4000; ++i) data[i] = 7.0f;
    const uint64_t count = device.rank() == 2 ? 1000 : 2000;
    auto work = device.world().all_reduce(data, data, count, DType::kFloat32, ReduceOp::kSum);
    if (!work) return 1;
    auto result = work->wait();
    if (result || result.error().code != Code::kFailedPrecondition) return 2;
    const std::string& text = result.error().message;
    if (text.find("ranks 0 and 2") == std::string::npos || text.find("count") == std::string::npos)
      return 3;
    for (int i = 0; i < 4000; ++i) {
      if (data[i] != 7.0f) return 4;
    }
    auto next = device.world().all_reduce(data, data, 2000, DType::kFloat32, ReduceOp::kSum);
    return next && next->wait() && data[0] == 28.0f ? 0 : 5;
  };
  for (const int code : test::run_threads(daemon.socket(), 4, body)) EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace npu
