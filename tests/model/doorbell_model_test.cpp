// Who wakes whom, under the model checker: members submit and sleep, the engine sleeps and answers.
// Real are shm/submit_client.cpp, client/api/device_queue.cpp, Engine::Impl::sleep and work_waits,
// ring_board and publish_abort. Matching is replaced: an operation is done when every rank has
// asked for it. A lost wake is a deadlock here.
#include <fmt/core.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "tests/model/copy_tracked.hpp"
#include "tests/model/expect.hpp"
#include "tests/model/relacy_futex.hpp"

// Last: from here on std::atomic is the checker's.
#include <boost/lockfree/spsc_queue.hpp>

#include "client/api/device_queue.cpp"
#include "client/api/region_allocator.cpp"
#include "daemon/collectives/parker.hpp"
#include "daemon/collectives/run_memory.cpp"
#include "shm/submit_client.cpp"
#include "shm/submit_daemon.cpp"

namespace npu::daemon {
namespace {

using model::Bug;
using model::expect_found;
using model::expect_holds;
using model::Mutant;

/// In place of a communicator: operations without arrival counts, as send and receive are.
constexpr uint32_t kUncounted = shm::kMaxCommunicators;

/// daemon/collectives/engine_run.hpp, as far as the engine's sleep looks at it.
class EngineRun {
 public:
  explicit EngineRun(RunMemory& memory) : memory_(&memory) {
    for (uint32_t r = 0; r < memory_->world; ++r) {
      readers_[r] = shm::SubmissionReader(memory_->ranks[r].submit_page());
      writers_[r] = shm::CompletionWriter(memory_->ranks[r].status_page());
    }
  }

  /// Takes what was submitted and answers what every rank has asked for. True if anything happened.
  bool serve() {
    bool moved = false;
    shm::Submission s;
    shm::VectorArgs vectors;
    for (uint32_t r = 0; r < memory_->world; ++r) {
      while (readers_[r].pop(s, vectors)) {
        asked_[s.communicator][r].push_back(s.ticket);
        moved = true;
      }
    }
    for (auto& asked : asked_) {
      while (complete(asked)) answer(asked);
    }
    return moved;
  }
  void abort() {
    aborted_ = true;
    publish_abort(*memory_, static_cast<uint8_t>(Code::kAborted), 2, 4711, "gone");
  }

  [[nodiscard]] bool has_submissions() const noexcept {
    for (uint32_t r = 0; r < memory_->world; ++r) {
      if (readers_[r].ready()) return true;
    }
    return false;
  }
#include "daemon/collectives/set_asleep.inc"
  [[nodiscard]] RunMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }
  [[nodiscard]] bool can_advance() const noexcept { return false; }
  [[nodiscard]] bool quiet() const noexcept { return true; }
  [[nodiscard]] bool muted() const noexcept { return false; }
  bool removing = false;

 private:
  using Asked = std::array<std::vector<uint64_t>, shm::kMaxDevices>;  // tickets, oldest first

  [[nodiscard]] bool complete(const Asked& asked) const noexcept {
    for (uint32_t r = 0; r < memory_->world; ++r) {
      if (asked[r].empty()) return false;
    }
    return true;
  }
  void answer(Asked& asked) noexcept {
    for (uint32_t r = 0; r < memory_->world; ++r) {
      writers_[r].publish(asked[r].front(), {.sequence = 1});
      asked[r].erase(asked[r].begin());
    }
    ring_board(*memory_, (1u << memory_->world) - 1);
  }

  RunMemory* memory_;
  std::array<shm::SubmissionReader, shm::kMaxDevices> readers_;
  std::array<shm::CompletionWriter, shm::kMaxDevices> writers_;
  std::array<Asked, kUncounted + 1> asked_;
  bool aborted_ = false;
};

enum class Command { kStop, kAbort };

}  // namespace

class Engine {
 public:
  struct Impl {
    Parker parker;
    boost::lockfree::spsc_queue<Command, boost::lockfree::capacity<4>> commands;
    std::vector<std::unique_ptr<EngineRun>> runs;
    struct {
      void rest() const noexcept {}
    } pulse;  // for the watchdog, which no protocol leans on
    bool stop = false;

    void send(Command command) {
      RL_ASSERT(commands.push(command));
      parker.notify();
    }
    void loop() {
      while (!stop) {
        bool moved = false;
        for (Command command{}; commands.pop(command); moved = true) {
          stop = stop || command == Command::kStop;
          if (command == Command::kAbort) runs[0]->abort();
        }
        for (auto& run : runs) moved |= !run->aborted() && run->serve();
        if (!moved && !stop) sleep();
      }
    }
    [[nodiscard]] bool work_waits() const;
    void sleep();
  };
};

#include "daemon/collectives/engine_sleep.inc"

namespace {

/// Thread 0 is the engine, the others are members' (`Derived` has void member(unsigned), from 0).
/// The last member to end stops the engine, as the control server would.
template <typename Derived, uint32_t kWorld, int kMembers>
struct Job : model::Suite<Derived, kMembers + 1> {
  shm::RunBoard board;
  shm::RunHints hints;
  std::array<shm::SubmitPage, kWorld> submit;
  std::array<shm::StatusPage, kWorld> status;
  model::Atomic<bool> failed;
  RunMemory memory{.world = kWorld, .the_board = &board, .the_hints = &hints, .ranks = {}};
  std::array<std::optional<client::DeviceQueue>, kWorld> queues;
  Engine::Impl engine;
  int running = kMembers;

  Job() {
    for (uint32_t r = 0; r < kWorld; ++r) {
      memory.ranks[r] = {{&submit[r]}, &status[r]};
      queues[r].emplace(client::DevicePlace{.submit = &submit[r],
                                            .status = &status[r],
                                            .board = &board,
                                            .hints = &hints,
                                            .generation = 7,
                                            .rank = r,
                                            .world = kWorld,
                                            .failed = &failed});
    }
    engine.runs.push_back(std::make_unique<EngineRun>(memory));
  }

  void thread(unsigned index) {
    if (index == 0) {
      engine.loop();
      return;
    }
    static_cast<Derived*>(this)->member(index - 1);
    if (--running == 0) engine.send(Command::kStop);
  }

  /// `n` operations of one communicator in one call; their first ticket.
  uint64_t submit_to(uint32_t rank, uint32_t communicator, size_t n = 1) {
    std::array<shm::Request, 2> requests;
    for (auto& request : requests) request.communicator = communicator;
    const shm::Arrival arrival =
        communicator == kUncounted ? shm::Arrival{} : shm::Arrival{communicator, rank, kWorld};
    for (;;) {
      const auto ticket = queues[rank]->submit({requests.data(), n}, arrival, "submit");
      if (ticket) return *ticket;
      model::pause();  // the ring is full of tickets whose holders are not inside wait yet
    }
  }
  void wait(uint32_t rank, uint64_t ticket) {
    const auto done = queues[rank]->wait(ticket, Deadline::never());
    RL_ASSERT(done.has_value() && done->has_value());
  }
  void run(uint32_t rank, uint32_t communicator) { wait(rank, submit_to(rank, communicator)); }
};

struct TwoMembers : Job<TwoMembers, 2, 2> {
  void member(uint32_t rank) {
    run(rank, 0);
    run(rank, 0);
  }
};

struct ThreeMembers : Job<ThreeMembers, 3, 3> {
  void member(uint32_t rank) {
    run(rank, 0);
    run(rank, 0);
  }
};

/// Two operations of rank 0 in one call, one after the other of rank 1.
struct Batch : Job<Batch, 2, 2> {
  void member(uint32_t rank) {
    if (rank == 0) {
      const uint64_t ticket = submit_to(0, 0, 2);
      wait(0, ticket);
      wait(0, ticket + 1);
    } else {
      run(1, 0);
      run(1, 0);
    }
  }
};

/// Threads 0 and 1 are rank 0's, thread 2 is rank 1.
struct TwoThreads : Job<TwoThreads, 2, 3> {
  void member(uint32_t thread) {
    run(thread / 2, 0);
    if (thread == 2) run(1, 0);
  }
};

/// The same, each thread of rank 0 with a communicator of its own (or without counts): rank 1 comes
/// for the first's only when the second's is done.
template <uint32_t kSecond>
struct TwoCommunicators : Job<TwoCommunicators<kSecond>, 2, 3> {
  void member(uint32_t thread) {
    if (thread < 2) {
      this->run(0, thread == 0 ? 0 : kSecond);
    } else {
      this->run(1, kSecond);
      this->run(1, 0);
    }
  }
};

/// One rank of three threads on a ring of two slots: they also sleep for room.
struct FullRing : Job<FullRing, 1, 3> {
  void member(uint32_t) {
    run(0, 0);
    run(0, 0);
  }
};

/// Ranks 0 and 1 wait for rank 2, whose thread is the control server's instead and aborts the run.
struct Abort : Job<Abort, 3, 3> {
  void member(uint32_t rank) {
    if (rank == 2) {
      engine.send(Command::kAbort);
      return;
    }
    // The abort may come before the submission, or later.
    shm::Request request;
    const auto ticket = queues[rank]->submit({&request, 1}, {0, rank, 3}, "submit");
    const auto done =
        ticket ? queues[rank]->wait(*ticket, Deadline::never()) : tl::unexpected(ticket.error());
    RL_ASSERT(!done && done.error().code == Code::kAborted && done.error().message == "gone");
    RL_ASSERT(board.abort.culprit == 2 && board.abort.pid == 4711);
  }
};

TEST(DoorbellModel, TwoMembersMissNoWake) { expect_holds<TwoMembers>(30'000); }
TEST(DoorbellModel, ThreeMembersMissNoWake) { expect_holds<ThreeMembers>(30'000); }
TEST(DoorbellModel, BatchMissesNoWake) { expect_holds<Batch>(20'000); }
TEST(DoorbellModel, TwoThreadsOfAMemberMissNoWake) { expect_holds<TwoThreads>(30'000); }
TEST(DoorbellModel, TwoCommunicatorsOfTwoThreadsMissNoWake) {
  expect_holds<TwoCommunicators<1>>(40'000);
}
TEST(DoorbellModel, SendBehindACollectiveMissesNoWake) {
  expect_holds<TwoCommunicators<kUncounted>>(20'000);
}
TEST(DoorbellModel, FullRingMissesNoWake) { expect_holds<FullRing>(20'000); }
TEST(DoorbellModel, AbortReachesAllWhole) { expect_holds<Abort>(20'000); }

class DoorbellBugs : public testing::TestWithParam<Bug> {};

TEST_P(DoorbellBugs, IsFound) { GetParam().expect(GetParam().mutant, GetParam().result); }

constexpr Bug kBugs[] = {
    {"AnnouncedBeforeStamp", Mutant::kAnnouncedBeforeStamp, expect_found<TwoMembers>},
    {"StampReleasedOnly", Mutant::kStampReleased, expect_found<FullRing>},
    {"ArrivalRelaxed", Mutant::kArrivalRelaxed, expect_found<TwoMembers>},
    {"ArrivalOneTooMany", Mutant::kArrivalOneTooMany, expect_found<TwoMembers>},
    {"LaterTicketForgotten", Mutant::kLaterTicketForgotten, expect_found<TwoCommunicators<1>>},
    {"LaterTicketForgottenBeforeASend", Mutant::kLaterTicketForgotten,
     expect_found<TwoCommunicators<kUncounted>>},
    {"LaterTicketRelaxed", Mutant::kLaterTicketRelaxed, expect_found<TwoCommunicators<1>>},
    {"AsleepRelaxed", Mutant::kAsleepRelaxed, expect_found<TwoMembers>},
    {"AsleepStoredRelaxed", Mutant::kAsleepStoredRelaxed, expect_found<TwoMembers>},
    {"AsleepAfterCheck", Mutant::kAsleepAfterCheck, expect_found<TwoMembers>},
    {"DoorbellNotBumped", Mutant::kDoorbellNotBumped, expect_found<TwoMembers>},
    {"BoardBumpedLate", Mutant::kBoardBumpedLate, expect_found<TwoMembers>},
    {"WaitingRelaxed", Mutant::kWaitingRelaxed, expect_found<TwoMembers>},
    {"BellReadLate", Mutant::kBellReadLate, expect_found<TwoMembers>},
    {"AbortWakesOne", Mutant::kAbortWakesOne, expect_found<Abort>},
    {"AbortRelaxed", Mutant::kAbortRelaxed, expect_found<Abort>, rl::test_result_data_race},
};
INSTANTIATE_TEST_SUITE_P(Each, DoorbellBugs, testing::ValuesIn(kBugs),
                         [](const auto& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace npu::daemon
