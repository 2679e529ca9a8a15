// A run whose ranks are threads of this process: engine, segments and communicators over one
// mapping, without daemon and sockets. What ThreadSanitizer can see through.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>
#include <vector>

#include "client/api/communicator.hpp"
#include "daemon/collectives/engine.hpp"
#include "daemon/collectives/flight_recorder.hpp"
#include "shm/segment.hpp"
#include "tests/collectives/rank_body.hpp"

namespace npu::test {

inline constexpr uint64_t kTwinArena = 4u << 20;

inline std::shared_ptr<daemon::RunMemory> make_run(uint32_t world, uint64_t id) {
  auto run = std::make_shared<daemon::RunMemory>();
  run->id = run->generation = id;
  run->world = world;
  run->name = "twin";
  shm::SegmentSpec spec{
      .kind = shm::SegmentKind::kBoard, .size_bytes = sizeof(shm::RunBoard), .generation = id};
  run->board_mapping = std::move(shm::create_segment(spec)->mapping);
  spec.kind = shm::SegmentKind::kHints;
  spec.size_bytes = sizeof(shm::RunHints);
  run->hints_mapping = std::move(shm::create_segment(spec)->mapping);
  run->recorder = std::make_shared<daemon::FlightRecorder>(
      std::move(*daemon::FlightRecorder::create(id, world)));
  for (uint32_t r = 0; r < world; ++r) {
    spec.rank = r;
    spec.kind = shm::SegmentKind::kArena;
    spec.size_bytes = kTwinArena;
    run->ranks[r].arena = std::move(shm::create_segment(spec)->mapping);
    spec.kind = shm::SegmentKind::kSubmit;
    spec.size_bytes = sizeof(shm::SubmitPage);
    run->ranks[r].submit = std::move(shm::create_segment(spec)->mapping);
    spec.kind = shm::SegmentKind::kStatus;
    spec.size_bytes = sizeof(shm::StatusPage);
    run->ranks[r].status = std::move(shm::create_segment(spec)->mapping);
    run->ranks[r].pid = 1000 + r;
    run->ranks[r].device = r;
  }
  return run;
}

inline client::Membership everyone(uint32_t rank, uint32_t world) {
  client::Membership m{0, rank, world, {}};
  for (uint8_t r = 0; r < world; ++r) m.world_ranks[r] = r;
  return m;
}

/// Engine and run of one test; ranks run `body` as threads and return 0 when all is as expected.
class Twin {
 public:
  /// `totals` counts what the engine does; it outlives this.
  Twin(uint32_t world, uint32_t engine_threads, daemon::EngineCounters* totals = nullptr)
      : run_(make_run(world, 7)) {
    engine_ = std::move(*daemon::Engine::start({.threads = engine_threads, .counters = totals}));
    engine_->add_run(run_);
  }
  ~Twin() {
    engine_->remove_run(run_->id);
    daemon::EngineEvent event;
    for (int i = 0; i < 5000; ++i) {
      while (engine_->next_event(event)) {
        if (event.kind == daemon::EngineEvent::Kind::kRemoved) return;
      }
      ::poll(nullptr, 0, 1);
    }
    ADD_FAILURE() << "the run was not removed";
  }

  [[nodiscard]] std::vector<std::string> ranks(const Body& body) {
    std::vector<std::string> wrong(run_->world, "did not run");
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < run_->world; ++r) {
      threads.emplace_back([&, r] {
        client::DeviceQueue queue(place_of(r));
        client::Communicator world(queue, everyone(r, run_->world));
        Rank rank{world, run_->ranks[r].arena.bytes()};
        wrong[r] = body(rank);
      });
    }
    for (auto& t : threads) t.join();
    return wrong;
  }
  [[nodiscard]] daemon::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] uint64_t id() const noexcept { return run_->id; }
  [[nodiscard]] const daemon::RunCounters& counters() const noexcept { return run_->counters; }

 private:
  [[nodiscard]] client::DevicePlace place_of(uint32_t r) {
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
    return place;
  }

  std::shared_ptr<daemon::RunMemory> run_;
  std::unique_ptr<daemon::Engine> engine_;
  std::atomic<bool> failed_{false};
};

}  // namespace npu::test
