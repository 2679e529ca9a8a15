// The collective protocol with everything in one process and one mapping, for what needs the engine
// in hand; the semantics are in tests/collectives.
#include <gtest/gtest.h>

#include "tests/collectives/twin.hpp"

namespace npu::test {
namespace {

using client::CollectiveResult;

std::string mixed_traffic(Rank& rank) {
  auto& world = rank.world;
  auto* data = reinterpret_cast<float*>(rank.arena.data());
  const auto ranks = static_cast<float>(rank.size());
  for (int round = 0; round < 15; ++round) {
    std::vector<client::Work> works;
    for (const uint64_t count : {200'001ul, 11ul, 5000ul, 3ul}) {
      for (uint64_t i = 0; i < count; ++i) data[i] = static_cast<float>(rank.id() + 1);
      const auto algorithm = round % 2 == 0 ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
      EXPECT_RANK(done(world.all_reduce(data, data, count, DType::kFloat32, ReduceOp::kSum,
                                        {.algorithm = algorithm, .timeout = {}})));
      for (uint64_t i = 0; i < count; ++i) EXPECT_RANK(data[i] == ranks * (ranks + 1) / 2);
    }
    for (int i = 0; i < 20; ++i) {
      auto work = world.barrier();
      EXPECT_RANK(work);
      works.push_back(std::move(*work));
    }
    for (auto& work : works) EXPECT_RANK(work.wait());
    EXPECT_RANK(done(world.broadcast(data, 50'000, DType::kFloat32,
                                     static_cast<uint32_t>(round) % rank.size())));
  }
  return {};
}

TEST(EngineTwin, MixedTrafficIsRightWithAnyNumberOfEngineThreads) {
  for (const uint32_t threads : {1u, 2u, 4u}) {
    Twin sut(5, threads);
    for (const auto& wrong : sut.ranks(mixed_traffic))
      EXPECT_EQ(wrong, "") << threads << " engine threads";
  }
}

TEST(EngineTwin, AbortInTheMiddleReleasesEveryRankWithTheSameVerdict) {
  Twin sut(4, 2);
  std::atomic<int> started{0};
  std::thread killer([&] {
    while (started.load() < 4) ::poll(nullptr, 0, 1);
    ::poll(nullptr, 0, 20);
    sut.engine().abort_run(sut.id(), Code::kAborted, 2, "rank 2 (pid 1002) died");
  });
  const auto wrong = sut.ranks([&](Rank& rank) -> std::string {
    auto* data = reinterpret_cast<float*>(rank.arena.data());
    ++started;
    for (int i = 0;; ++i) {
      const auto algorithm = i % 2 == 0 ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
      const auto error =
          error_of(rank.world.all_reduce(data, data, 400'000, DType::kFloat32, ReduceOp::kSum,
                                         {.algorithm = algorithm, .timeout = {}}));
      if (!error) continue;
      EXPECT_RANK(error->code == Code::kAborted && error->message.find("rank 2") == 0, "{}",
                  error->message);
      return {};
    }
  });
  killer.join();
  for (const auto& text : wrong) EXPECT_EQ(text, "");
}

TEST(EngineTwin, ALongWaitIsReportedBeforeItsDeadline) {
  Twin sut(3, 1);
  std::atomic<bool> reported{false};
  std::string what;
  std::thread server([&] {  // as the control server: the only one that takes events
    daemon::EngineEvent event;
    for (int i = 0; i < 5000 && !reported; ++i) {
      while (!reported && sut.engine().next_event(event)) {
        if (event.kind != daemon::EngineEvent::Kind::kWarning) continue;
        what = event.error.message;
        reported = true;
      }
      ::poll(nullptr, 0, 2);
    }
    reported = true;
  });
  const auto wrong = sut.ranks([&](Rank& rank) -> std::string {
    while (rank.id() == 1 && !reported) ::poll(nullptr, 0, 2);
    EXPECT_RANK(done(rank.world.barrier({.timeout = milliseconds(8'000)})));
    return {};
  });
  server.join();
  for (const auto& text : wrong) EXPECT_EQ(text, "");
  EXPECT_EQ(what.find("barrier seq 0 waits for rank(s) 1 since "), 0u) << what;
}

}  // namespace
}  // namespace npu::test
