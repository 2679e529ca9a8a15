// The collective protocol with everything in one process and one mapping: ranks are threads, the
// engine runs beside them. This is the twin that ThreadSanitizer can see through;
// collectives_test.cpp has the real processes.
#include <gtest/gtest.h>
#include <poll.h>

#include <cmath>
#include <thread>
#include <vector>

#include "client/api/communicator.hpp"
#include "daemon/collectives/engine.hpp"
#include "shm/segment.hpp"

namespace npu {
namespace {

using client::Communicator;
using daemon::Engine;
using daemon::EngineEvent;
using daemon::RunMemory;

constexpr uint64_t kArena = 4u << 20;

std::shared_ptr<RunMemory> make_run(uint32_t world, uint64_t id) {
  auto run = std::make_shared<RunMemory>();
  run->id = run->generation = id;
  run->world = world;
  run->name = "twin";
  shm::SegmentSpec spec{
      .kind = shm::SegmentKind::kBoard, .size_bytes = sizeof(shm::RunBoard), .generation = id};
  run->board_mapping = std::move(shm::create_segment(spec)->mapping);
  spec.kind = shm::SegmentKind::kHints;
  spec.size_bytes = sizeof(shm::RunHints);
  run->hints_mapping = std::move(shm::create_segment(spec)->mapping);
  for (uint32_t r = 0; r < world; ++r) {
    spec.rank = r;
    spec.kind = shm::SegmentKind::kArena;
    spec.size_bytes = kArena;
    run->ranks[r].arena = std::move(shm::create_segment(spec)->mapping);
    spec.kind = shm::SegmentKind::kSubmit;
    spec.size_bytes = sizeof(shm::SubmitPage);
    run->ranks[r].submit = std::move(shm::create_segment(spec)->mapping);
    spec.kind = shm::SegmentKind::kStatus;
    spec.size_bytes = sizeof(shm::StatusPage);
    run->ranks[r].status = std::move(shm::create_segment(spec)->mapping);
    run->ranks[r].pid = 1000 + r;
  }
  return run;
}

client::Membership everyone(uint32_t rank, uint32_t world) {
  client::Membership m{0, rank, world, {}};
  for (uint8_t r = 0; r < world; ++r) m.world_ranks[r] = r;
  return m;
}

/// Engine and run of one test; ranks run `body` as threads and return 0 when all is as expected.
class Twin {
 public:
  Twin(uint32_t world, uint32_t engine_threads) : run_(make_run(world, 7)) {
    engine_ = std::move(*Engine::start({.threads = engine_threads}));
    engine_->add_run(run_);
  }
  ~Twin() {
    engine_->remove_run(run_->id);
    EngineEvent event;
    for (int i = 0; i < 5000; ++i) {
      while (engine_->next_event(event)) {
        if (event.kind == EngineEvent::Kind::kRemoved) return;
      }
      ::poll(nullptr, 0, 1);
    }
    ADD_FAILURE() << "the run was not removed";
  }

  [[nodiscard]] std::vector<int> ranks(
      const std::function<int(Communicator&, std::span<std::byte>)>& body) {
    std::vector<int> codes(run_->world, -1);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < run_->world; ++r) {
      threads.emplace_back([&, r] {
        client::DevicePlace place;
        place.submit = run_->ranks[r].submit_page();
        place.status = run_->ranks[r].status_page();
        place.board = run_->board();
        place.hints = run_->hints();
        place.arena = run_->ranks[r].arena.bytes();
        place.generation = run_->generation;
        place.rank = r;
        place.world = run_->world;
        place.failed = &failed_;
        place.failure = [] { return Error{Code::kUnavailable, "lost", Exit::kNoDaemon}; };
        client::DeviceQueue queue(std::move(place));
        Communicator communicator(queue, everyone(r, run_->world));
        codes[r] = body(communicator, run_->ranks[r].arena.bytes());
      });
    }
    for (auto& t : threads) t.join();
    return codes;
  }
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] uint64_t id() const noexcept { return run_->id; }

 private:
  std::shared_ptr<RunMemory> run_;
  std::unique_ptr<Engine> engine_;
  std::atomic<bool> failed_{false};
};

int mixed_traffic(Communicator& world, std::span<std::byte> arena) {
  auto* data = reinterpret_cast<float*>(arena.data());
  const auto ranks = static_cast<float>(world.size());
  for (int round = 0; round < 15; ++round) {
    std::vector<client::Work> works;
    for (const uint64_t count : {200'001ul, 11ul, 5000ul, 3ul}) {
      for (uint64_t i = 0; i < count; ++i) data[i] = static_cast<float>(world.rank() + 1);
      const auto algorithm = round % 2 == 0 ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
      auto work = world.all_reduce(data, data, count, DType::kFloat32, ReduceOp::kSum,
                                   {.algorithm = algorithm});
      if (!work || !work->wait()) return 1;
      for (uint64_t i = 0; i < count; ++i) {
        if (data[i] != ranks * (ranks + 1) / 2) return 2;
      }
    }
    for (int i = 0; i < 20; ++i) {
      auto work = world.barrier();
      if (!work) return 3;
      works.push_back(std::move(*work));
    }
    for (auto& work : works) {
      if (!work.wait()) return 4;
    }
    auto shared =
        world.broadcast(data, 50'000, DType::kFloat32, static_cast<uint32_t>(round) % world.size());
    if (!shared || !shared->wait()) return 5;
  }
  return 0;
}

TEST(EngineTwin, MixedTrafficIsRightWithAnyNumberOfEngineThreads) {
  for (const uint32_t threads : {1u, 2u, 4u}) {
    Twin sut(5, threads);
    for (const int code : sut.ranks(mixed_traffic))
      EXPECT_EQ(code, 0) << threads << " engine threads";
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
  const auto codes = sut.ranks([&](Communicator& world, std::span<std::byte> arena) {
    auto* data = reinterpret_cast<float*>(arena.data());
    ++started;
    for (int i = 0;; ++i) {
      const auto algorithm = i % 2 == 0 ? shm::Algorithm::kRing : shm::Algorithm::kDirect;
      auto work = world.all_reduce(data, data, 400'000, DType::kFloat32, ReduceOp::kSum,
                                   {.algorithm = algorithm});
      auto result =
          work ? work->wait() : Result<client::CollectiveResult>(tl::unexpected(work.error()));
      if (!result)
        return result.error().code == Code::kAborted && result.error().message.find("rank 2") == 0
                   ? 0
                   : 1;
    }
  });
  killer.join();
  for (const int code : codes) EXPECT_EQ(code, 0);
}

TEST(EngineTwin, TwoThreadsOfEveryRankShareACommunicator) {
  Twin sut(3, 2);
  const auto codes = sut.ranks([](Communicator& world, std::span<std::byte>) {
    std::atomic<int> bad{0};
    const auto hammer = [&] {
      for (int i = 0; i < 200; ++i) {
        double x = 1;
        const auto call = [&] {
          return world.all_reduce(&x, &x, 1, DType::kFloat64, ReduceOp::kSum);
        };
        auto work = call();
        while (!work && work.error().code ==
                            Code::kResourceExhausted) {  // back-pressure, see collectives_test.cpp
          std::this_thread::yield();
          work = call();
        }
        if (!work || !work->wait() || x != world.size()) ++bad;
      }
    };
    std::thread other(hammer);
    hammer();
    other.join();
    return bad.load();
  });
  for (const int code : codes) EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace npu
