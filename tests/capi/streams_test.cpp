// Order, back-pressure and errors of streams, with ranks as threads.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <random>

#include "tests/capi/rank_threads.hpp"

namespace npu {
namespace {

using test::DaemonProcess;
using test::Joined;
using test::run_ranks;
using test::small_config;

constexpr int kMany = 1500;         // several times what a rank may have outstanding
constexpr uint64_t kElements = 16;  // 64 bytes: in memory, not in the request

TEST(BackPressure, ManyOperationsWithoutAWaitAllHappen) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.new_stream();
    int32_t* data = me.make<int32_t>(kMany * kElements);
    for (uint64_t i = 0; i < kMany * kElements; ++i) data[i] = static_cast<int32_t>(i + me.rank);
    for (int k = 0; k < kMany; ++k) {
      int32_t* part = data + static_cast<uint64_t>(k) * kElements;
      ASSERT_EQ(npu_all_reduce(part, part, kElements, NPU_INT32, NPU_SUM, me.comm, stream),
                NPU_SUCCESS)
          << npu_last_error();
    }
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (uint64_t i = 0; i < kMany * kElements; ++i)
      ASSERT_EQ(data[i], static_cast<int32_t>(2 * i + 1)) << i;
    uint64_t copies = 1;
    EXPECT_EQ(npu_comm_staged_copies(me.comm, &copies), NPU_SUCCESS);
    EXPECT_EQ(copies, 0u);
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS);
  });
}

TEST(BackPressure, AnOldOperationOfAnotherStreamDoesNotBlockTheRing) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t old = me.new_stream(), busy = me.new_stream();
    int32_t small = static_cast<int32_t>(me.rank) + 1;  // in the request
    EXPECT_EQ(npu_all_reduce(&small, &small, 1, NPU_INT32, NPU_SUM, me.comm, old), NPU_SUCCESS);
    npu_comm_t none = nullptr;
    for (int k = 0; k < kMany; ++k) {
      ASSERT_EQ(npu_barrier(me.comm, busy), NPU_SUCCESS) << npu_last_error();
      // A call that blocks needs a place as well.
      if (k % 100 == 0) {
        ASSERT_EQ(npu_comm_split(me.comm, NPU_SPLIT_NOCOLOR, 0, &none), NPU_SUCCESS)
            << npu_last_error();
      }
    }
    EXPECT_EQ(npu_stream_synchronize(busy), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(npu_stream_synchronize(old), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(small, 3);
    EXPECT_EQ(npu_stream_destroy(old), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_destroy(busy), NPU_SUCCESS);
  });
}

TEST(BackPressure, BatchesFillTheRingAndNothingIsLost) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    constexpr uint32_t kPairs = NPU_BATCH_ITEMS / 2, kBatches = 20;
    int32_t* data = me.make<int32_t>(kPairs * kElements, static_cast<int32_t>(me.rank));
    int32_t* got = me.make<int32_t>(kBatches * kPairs * kElements, -1);
    for (uint32_t b = 0; b < kBatches; ++b) {
      std::vector<npu_send_recv_item_t> items;
      for (uint32_t i = 0; i < kPairs; ++i) {
        items.push_back({NPU_SEND, data + i * kElements, kElements, NPU_INT32, 1 - me.rank});
        items.push_back(
            {NPU_RECV, got + (b * kPairs + i) * kElements, kElements, NPU_INT32, 1 - me.rank});
      }
      ASSERT_EQ(npu_batch_send_recv(items.data(), NPU_BATCH_ITEMS, me.comm, stream), NPU_SUCCESS)
          << npu_last_error();
    }
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (uint64_t i = 0; i < kBatches * kPairs * kElements; ++i)
      ASSERT_EQ(got[i], static_cast<int32_t>(1 - me.rank)) << i;
  });
}

TEST(Staging, BuffersOutsideTheArenaAreCopiedAndAFullRegionWaits) {
  const DaemonProcess daemon;
  npu_config_t config = small_config(daemon.socket());
  config.staging_bytes = 256 << 10;
  run_ranks(config, 2, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    constexpr uint64_t kCount = 20'000;  // 80 kB: three fit
    std::vector<std::vector<float>> in(20, std::vector<float>(kCount)), out = in;
    for (size_t k = 0; k < in.size(); ++k) {
      for (uint64_t i = 0; i < kCount; ++i) in[k][i] = static_cast<float>(i % 100 + k + me.rank);
      ASSERT_EQ(npu_all_reduce(in[k].data(), out[k].data(), kCount, NPU_FLOAT32, NPU_MEAN, me.comm,
                               stream),
                NPU_SUCCESS)
          << npu_last_error();
    }
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
    for (size_t k = 0; k < in.size(); ++k) {
      for (uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(out[k][i], static_cast<float>(i % 100 + k) + 0.5f) << k << ", " << i;
    }
    uint64_t copies = 0;
    EXPECT_EQ(npu_comm_staged_copies(me.comm, &copies), NPU_SUCCESS);
    EXPECT_GE(copies, 40u);
    std::vector<float> large(100'000);
    EXPECT_EQ(npu_bcast(large.data(), large.size(), NPU_FLOAT32, 0, me.comm, stream),
              NPU_RESOURCE_EXHAUSTED);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
  });
}

TEST(Staging, WithoutARegionBuffersOutsideAreRefused) {
  const DaemonProcess daemon;
  npu_config_t config = small_config(daemon.socket());
  config.staging_bytes = 0;
  run_ranks(config, 1, [](Joined& me) {
    float outside[100] = {}, small[10] = {1};
    EXPECT_EQ(npu_bcast(outside, 100, NPU_FLOAT32, 0, me.comm, nullptr), NPU_INVALID_ARGUMENT);
    EXPECT_EQ(npu_all_reduce(small, outside, 10, NPU_FLOAT32, NPU_SUM, me.comm, nullptr),
              NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(nullptr), NPU_SUCCESS) << npu_last_error();
    EXPECT_EQ(outside[0], 1.0f);
  });
}

/// Three buffers: in the request, in device memory, staged. Each operation reads what the one
/// before it has written, for every order of two kinds.
TEST(Order, AnOperationSeesTheResultsOfEarlierOnesWhateverWayTheyTake) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    constexpr uint64_t kLarge = 50'000, kSmall = 10;
    int32_t* inside = me.make<int32_t>(kLarge);
    std::vector<int32_t> outside(kLarge);
    struct Step {
      int32_t* buffer;
      uint64_t count;
    };
    const Step steps[] = {{inside, kLarge},         {inside, kSmall},
                          {inside, kLarge},         {outside.data(), kLarge},
                          {outside.data(), kSmall}, {outside.data(), kLarge}};
    for (int round = 0; round < 20; ++round) {
      for (uint64_t i = 0; i < kLarge; ++i) inside[i] = outside[i] = 1;
      for (const Step& step : steps) {
        ASSERT_EQ(npu_all_reduce(step.buffer, step.buffer, step.count, NPU_INT32, NPU_SUM, me.comm,
                                 stream),
                  NPU_SUCCESS)
            << npu_last_error();
      }
      // Over to the other kind of memory, and back.
      ASSERT_EQ(
          npu_all_reduce(inside, outside.data() + 1, kSmall, NPU_INT32, NPU_SUM, me.comm, stream),
          NPU_SUCCESS);
      ASSERT_EQ(npu_all_reduce(outside.data(), inside, kLarge, NPU_INT32, NPU_SUM, me.comm, stream),
                NPU_SUCCESS);
      ASSERT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
      for (uint64_t i = 0; i < kLarge; ++i) {
        const int32_t before = i < kSmall ? 8 : 4;  // doubled three times, or twice
        const int32_t copied = i >= 1 && i <= kSmall ? 16 : before;
        ASSERT_EQ(outside[i], copied) << i;
        ASSERT_EQ(inside[i], 2 * copied) << i;
      }
    }
  });
}

TEST(Order, AnEngineDoesNotReadWhatASmallResultHasYetToReplace) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    float* data = me.make<float>(1000, 1.0f);
    float* copy = me.make<float>(1000);
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 1000; ++i) data[i] = 1.0f;
      EXPECT_EQ(npu_all_reduce(data, data, 10, NPU_FLOAT32, NPU_SUM, me.comm, stream), NPU_SUCCESS);
      EXPECT_EQ(npu_all_reduce(data, copy, 1000, NPU_FLOAT32, NPU_MAX, me.comm, stream),
                NPU_SUCCESS);
      // A later result of an engine is not overwritten by the earlier small one.
      EXPECT_EQ(npu_bcast(data, 10, NPU_FLOAT32, 0, me.comm, stream), NPU_SUCCESS);
      EXPECT_EQ(npu_all_reduce(copy, data, 1000, NPU_FLOAT32, NPU_SUM, me.comm, stream),
                NPU_SUCCESS);
      ASSERT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
      for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(copy[i], i < 10 ? 2.0f : 1.0f) << round << ", " << i;
        ASSERT_EQ(data[i], i < 10 ? 4.0f : 2.0f) << round << ", " << i;
      }
    }
  });
}

/// What the program's memory of one rank would hold if every operation were finished at once.
struct Model {
  static constexpr uint64_t kElementsEach = 3000;
  std::vector<uint32_t> memory[2];  // in the arena, outside

  explicit Model(uint32_t rank) {
    for (uint32_t m = 0; m < 2; ++m) {
      for (uint64_t i = 0; i < kElementsEach; ++i)
        memory[m].push_back(static_cast<uint32_t>(i * 77 + m * 5 + rank * 1'000'003));
    }
  }
};

struct RandomStep {
  uint32_t from, to;  // which memory
  uint64_t send_at, recv_at, count;
  bool broadcast;
  uint32_t root;
};

RandomStep random_step(std::mt19937& random, uint32_t ranks) {
  const auto below = [&](uint64_t n) { return random() % n; };
  RandomStep step{};
  step.count = below(2) == 0 ? 1 + below(12) : 1 + below(900);
  step.from = static_cast<uint32_t>(below(2));
  step.to = static_cast<uint32_t>(below(2));
  do {  // in place, or apart
    step.send_at = below(Model::kElementsEach - step.count);
    step.recv_at = below(Model::kElementsEach - step.count);
    if (below(3) == 0 && step.from == step.to) step.recv_at = step.send_at;
  } while (step.from == step.to && step.recv_at != step.send_at &&
           step.recv_at < step.send_at + step.count && step.send_at < step.recv_at + step.count);
  step.broadcast = below(3) == 0;
  step.root = static_cast<uint32_t>(below(ranks));
  return step;
}

void apply(const RandomStep& step, std::vector<Model>& models) {
  for (uint64_t i = 0; i < step.count; ++i) {
    uint32_t result = 0;
    for (uint32_t r = 0; r < models.size(); ++r) {
      if (!step.broadcast || r == step.root)
        result += models[r].memory[step.from][step.send_at + i];
    }
    for (Model& model : models) model.memory[step.to][step.recv_at + i] = result;
  }
}

TEST(Order, RandomOperationsOfOneStreamMatchTheirOneByOneReference) {
  const DaemonProcess daemon;
  constexpr uint32_t kRanks = 3, kSeed = 20'260, kSteps = 3'000;
  run_ranks(small_config(daemon.socket()), kRanks, [&](Joined& me) {
    std::vector<Model> models{Model(0), Model(1), Model(2)};
    uint32_t* inside = me.make<uint32_t>(Model::kElementsEach);
    std::vector<uint32_t> outside = models[me.rank].memory[1];
    std::copy_n(models[me.rank].memory[0].begin(), Model::kElementsEach, inside);
    uint32_t* const memory[2] = {inside, outside.data()};
    const npu_stream_t stream = me.new_stream();
    std::mt19937 random(kSeed);  // the same steps on every rank
    for (uint32_t k = 0; k < kSteps; ++k) {
      const RandomStep step = random_step(random, kRanks);
      const uint32_t* send = memory[step.from] + step.send_at;
      uint32_t* recv = memory[step.to] + step.recv_at;
      const npu_result_t enqueued =
          step.broadcast
              ? npu_broadcast(send, recv, step.count, NPU_UINT32, step.root, me.comm, stream)
              : npu_all_reduce(send, recv, step.count, NPU_UINT32, NPU_SUM, me.comm, stream);
      ASSERT_EQ(enqueued, NPU_SUCCESS) << npu_last_error();
      apply(step, models);
      if (k % 100 != 99) continue;
      ASSERT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS) << npu_last_error();
      for (uint32_t m = 0; m < 2; ++m) {
        for (uint64_t i = 0; i < Model::kElementsEach; ++i) {
          ASSERT_EQ(memory[m][i], models[me.rank].memory[m][i])
              << "seed " << kSeed << ", step " << k << ", rank " << me.rank << ", memory " << m
              << ", element " << i;
        }
      }
    }
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS);
  });
}

TEST(Errors, TheFirstOfAStreamIsKeptUntilSynchronizeReturnsIt) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.new_stream(), other = me.new_stream();
    float* data = me.make<float>(200, 1.0f);
    const auto all_reduce = [&](uint64_t count, npu_redop_t op, npu_stream_t where) {
      EXPECT_EQ(npu_all_reduce(data, data, count, NPU_FLOAT32, op, me.comm, where), NPU_SUCCESS);
    };
    all_reduce(me.rank == 0 ? 100 : 99, NPU_SUM, stream);
    all_reduce(100, me.rank == 0 ? NPU_SUM : NPU_MAX, stream);
    all_reduce(100, NPU_SUM, stream);
    all_reduce(100, NPU_SUM, other);
    EXPECT_EQ(npu_stream_synchronize(other), NPU_SUCCESS) << npu_last_error();
    int done = 0;
    while (done == 0) ASSERT_EQ(npu_stream_query(stream, &done), NPU_SUCCESS);
    npu_result_t error = NPU_SUCCESS;
    EXPECT_EQ(npu_comm_async_error(me.comm, &error), NPU_SUCCESS);
    EXPECT_EQ(error, NPU_FAILED_PRECONDITION);
    EXPECT_NE(std::strstr(npu_last_error(), "count"), nullptr) << npu_last_error();
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_FAILED_PRECONDITION);
    EXPECT_NE(std::strstr(npu_last_error(), "differ in count"), nullptr) << npu_last_error();
    EXPECT_EQ(npu_comm_async_error(me.comm, &error), NPU_SUCCESS);
    EXPECT_EQ(error, NPU_SUCCESS);
    EXPECT_EQ(npu_stream_synchronize(stream), NPU_SUCCESS);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(data[i], 4.0f);  // two of the four were carried out
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS);
    EXPECT_EQ(npu_stream_destroy(other), NPU_SUCCESS);
  });
}

TEST(Errors, NobodyHasAskedForAreReturnedByDestroy) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.new_stream();
    float* data = me.make<float>(200);
    const auto disagree = [&] {
      EXPECT_EQ(npu_all_reduce(data, data, 100 + me.rank, NPU_FLOAT32, NPU_SUM, me.comm, stream),
                NPU_SUCCESS);
    };
    disagree();
    EXPECT_EQ(npu_stream_destroy(stream), NPU_FAILED_PRECONDITION);
    EXPECT_EQ(npu_bcast(data, 100, NPU_FLOAT32, me.rank, me.comm, nullptr), NPU_SUCCESS);
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_FAILED_PRECONDITION);
    EXPECT_EQ(npu_comm_destroy(me.comm), NPU_INVALID_ARGUMENT);
    me.comm = nullptr;
  });
}

TEST(Waiting, ATimeoutIsNotTheEndOfTheOperation) {
  const DaemonProcess daemon;
  std::promise<void> rank_0_has_waited;
  run_ranks(small_config(daemon.socket()), 2, [&](Joined& me) {
    const npu_stream_t stream = me.default_stream();
    if (me.rank == 1) rank_0_has_waited.get_future().wait();
    EXPECT_EQ(npu_barrier(me.comm, stream), NPU_SUCCESS);
    if (me.rank == 0) {
      int done = 1;
      EXPECT_EQ(npu_stream_synchronize_timeout(stream, 10), NPU_DEADLINE_EXCEEDED);
      EXPECT_EQ(npu_stream_query(stream, &done), NPU_SUCCESS);
      EXPECT_EQ(done, 0);
      npu_result_t error = NPU_INTERNAL;
      EXPECT_EQ(npu_comm_async_error(me.comm, &error), NPU_SUCCESS);
      EXPECT_EQ(error, NPU_SUCCESS);
      rank_0_has_waited.set_value();
    }
    EXPECT_EQ(npu_stream_synchronize_timeout(stream, 20'000), NPU_SUCCESS) << npu_last_error();
  });
}

TEST(Waiting, SeveralThreadsMayWaitForAndFillTheSameStream) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 2, [](Joined& me) {
    const npu_stream_t stream = me.new_stream();
    std::atomic<int> wrong{0};
    const auto hammer = [&](uint64_t waits) {
      for (int k = 0; k < 600; ++k) {
        float x = 1.0f;  // gone with this round: it must be finished when synchronize returns
        if (npu_all_reduce(&x, &x, 1, NPU_FLOAT32, NPU_SUM, me.comm, stream) != NPU_SUCCESS)
          ++wrong;
        const npu_result_t waited = waits % 2 == 0 ? npu_stream_synchronize(stream)
                                                   : npu_stream_synchronize_timeout(stream, 20'000);
        if (waited != NPU_SUCCESS || x != 2.0f) ++wrong;
        int done = 0;
        if (npu_stream_query(stream, &done) != NPU_SUCCESS) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) threads.emplace_back(hammer, t);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS) << npu_last_error();
  });
}

TEST(Streams, AreSixteenARank) {
  const DaemonProcess daemon;
  run_ranks(small_config(daemon.socket()), 1, [](Joined& me) {
    std::vector<npu_stream_t> streams;
    for (int i = 0; i < 15; ++i) streams.push_back(me.new_stream());
    npu_stream_t more = nullptr;
    EXPECT_EQ(npu_stream_create(me.comm, &more), NPU_RESOURCE_EXHAUSTED);
    for (const npu_stream_t stream : streams) EXPECT_EQ(npu_barrier(me.comm, stream), NPU_SUCCESS);
    for (const npu_stream_t stream : streams)
      EXPECT_EQ(npu_stream_destroy(stream), NPU_SUCCESS) << npu_last_error();
    EXPECT_NE(me.new_stream(), nullptr);
  });
}

}  // namespace
}  // namespace npu
