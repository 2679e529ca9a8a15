// The submission ring under the model checker: threads of one rank submit, wait, release and
// abandon while the daemon takes entries and answers. Real are shm/submit_client.cpp and
// shm/submit_daemon.cpp, on a ring of two slots.
#include <span>

#include "tests/model/copy_tracked.hpp"
#include "tests/model/expect.hpp"
#include "tests/model/relacy_futex.hpp"

// Last: from here on std::atomic is the checker's.
#include "daemon/collectives/run_memory.cpp"
#include "shm/submit_client.cpp"
#include "shm/submit_daemon.cpp"

namespace npu::shm {
namespace {

using model::Bug;
using model::expect_found;
using model::expect_holds;
using model::Mutant;

/// One number in every field, so that a mixture shows.
Request request_of(uint64_t id) {
  Request request;
  request.op = id % 2 == 0 ? Op::kAllToAllV : Op::kAllReduce;
  request.dtype = static_cast<uint8_t>(id);
  request.root = static_cast<uint32_t>(id);
  request.count = request.send_offset = request.recv_offset = id;
  request.scale = static_cast<double>(id);
  request.inline_payload.fill(static_cast<std::byte>(id));
  for (uint32_t r = 0; r < kMaxDevices; ++r) request.vectors.send_counts[r] = id;
  return request;
}

bool whole(const Submission& s, const VectorArgs& vectors) {
  bool same = s.dtype == s.count && s.root == s.count && s.send_offset == s.count &&
              s.recv_offset == s.count && s.scale == static_cast<double>(s.count);
  for (const std::byte b : s.inline_payload) same = same && b == static_cast<std::byte>(s.count);
  if (s.count % 2 != 0) return same;
  for (uint32_t r = 0; r < kMaxDevices; ++r) same = same && vectors.send_counts[r] == s.count;
  return same;
}

/// Threads 0 to kSubmitters - 1 are the rank's, the last is the daemon. `Derived` has void
/// member(unsigned thread) and kTotal, the number of entries.
template <typename Derived, int kSubmitters>
struct Ring : model::Suite<Derived, kSubmitters + 1> {
  SubmitPage submit;
  StatusPage status;
  RunBoard board;
  RunHints hints;
  Submitter sut{submit, status, board, hints, 7};
  SubmissionReader reader{&submit};
  CompletionWriter writer{&status};
  daemon::RunMemory memory{.world = 1, .the_board = &board, .the_hints = &hints, .ranks = {}};
  std::array<int, 64> taken{};

  Ring() { memory.ranks[0] = {{&submit}, &status}; }

  void thread(unsigned index) {
    if (index == kSubmitters) {
      serve();
    } else {
      static_cast<Derived*>(this)->member(index);
    }
  }

  /// Polls, as who waits for a completion does here, so that nothing but the ring orders the two
  /// sides. Who waits for room sleeps.
  void serve() {
    Submission s;
    VectorArgs vectors;
    for (uint64_t n = 0; n < Derived::kTotal;) {
      if (!reader.pop(s, vectors)) {
        model::pause();
        continue;
      }
      RL_ASSERT(s.ticket == n && s.generation == 7);
      RL_ASSERT(whole(s, vectors));
      RL_ASSERT(taken[s.count]++ == 0);
      writer.publish(s.ticket, {.sequence = s.count, .sum_squares = s.scale});
      ring_board(memory, 1);
      ++n;
    }
  }

  uint64_t submit_all(std::span<const Request> requests) {
    for (;;) {
      if (const auto ticket = sut.submit(requests, {})) return *ticket;
      // No thread submits here while it holds a ticket.
      RL_ASSERT(sut.wait_for_room(requests.size()) != Submitter::Room::kNever);
    }
  }
  void wait(uint64_t ticket, uint64_t id) {
    sut.begin_wait(ticket);
    finish(ticket, id);
  }
  void finish(uint64_t ticket, uint64_t id) {
    Outcome outcome;
    while (!sut.poll(ticket, outcome)) model::pause();
    RL_ASSERT(outcome.sequence == id && outcome.sum_squares == static_cast<double>(id));
    sut.release(ticket);
  }
};

/// Each thread submits twice; the first `kAbandoning` threads never look at the outcome.
template <int kSubmitters, unsigned kAbandoning>
struct Single : Ring<Single<kSubmitters, kAbandoning>, kSubmitters> {
  static constexpr uint64_t kTotal = kSubmitters * 2;

  void member(unsigned thread) {
    for (uint64_t id = thread * 2; id < thread * 2 + 2; ++id) {
      const Request request = request_of(id);
      const uint64_t ticket = this->submit_all({&request, 1});
      if (thread < kAbandoning) {
        this->sut.abandon(ticket);
      } else {
        this->wait(ticket, id);
      }
    }
  }
};
using TwoThreads = Single<2, 0>;
using TwoAbandoning = Single<2, 2>;
using ThreeOneAbandoning = Single<3, 1>;

struct Batches : Ring<Batches, 2> {
  static constexpr uint64_t kTotal = 8;

  void member(unsigned thread) {
    for (uint64_t id = thread * 4; id < thread * 4 + 4; id += 2) {
      const std::array<Request, 2> requests{request_of(id), request_of(id + 1)};
      const uint64_t ticket = submit_all(requests);
      wait(ticket + 1, id + 1);
      wait(ticket, id);
    }
  }
};

/// Thread 0 fills the ring and waits; thread 1 needs a slot and may rely on getting one.
struct Promise : Ring<Promise, 2> {
  static constexpr uint64_t kTotal = 3;
  model::Atomic<uint32_t> waiting;

  void member(unsigned thread) {
    if (thread == 0) {
      const std::array<Request, 2> requests{request_of(0), request_of(1)};
      const uint64_t ticket = submit_all(requests);
      sut.begin_wait(ticket);
      waiting.store(1, std::memory_order_release);
      finish(ticket, 0);
      wait(ticket + 1, 1);
      return;
    }
    while (waiting.load(std::memory_order_acquire) == 0) model::pause();
    const Request request = request_of(2);
    std::optional<uint64_t> ticket;
    while (!(ticket = sut.submit({&request, 1}, {}))) {
      RL_ASSERT(sut.wait_for_room(1) == Submitter::Room::kSoon);
    }
    wait(*ticket, 2);
  }
};

/// One thread fills the ring and then asks for more: it is told that it must release first.
struct Own : Ring<Own, 2> {
  static constexpr uint64_t kTotal = 3;

  void member(unsigned thread) {
    if (thread == 0) {
      const std::array<Request, 2> requests{request_of(0), request_of(1)};
      const uint64_t ticket = submit_all(requests);
      const Request request = request_of(2);
      if (!sut.submit({&request, 1}, {})) {
        RL_ASSERT(sut.wait_for_room(1) == Submitter::Room::kNever);
      }
      wait(ticket, 0);
      wait(ticket + 1, 1);
    } else {
      const Request request = request_of(2);
      wait(submit_all({&request, 1}), 2);
    }
  }
};

TEST(SubmissionModel, TwoThreadsLoseDoubleAndTearNothing) { expect_holds<TwoThreads>(20'000); }
TEST(SubmissionModel, BatchesStayTogether) { expect_holds<Batches>(20'000); }
TEST(SubmissionModel, AbandonedSlotsComeBack) { expect_holds<TwoAbandoning>(20'000); }
TEST(SubmissionModel, AbandonedSlotsComeBackOnceAmongThree) {
  expect_holds<ThreeOneAbandoning>(60'000);
}
TEST(SubmissionModel, HolderOfAFullRingIsRefused) { expect_holds<Own>(20'000); }
TEST(SubmissionModel, RoomIsFoundWhileItsHolderWaits) { expect_holds<Promise>(20'000); }

class SubmissionBugs : public testing::TestWithParam<Bug> {};

TEST_P(SubmissionBugs, IsFound) { GetParam().expect(GetParam().mutant, GetParam().result); }

// A thread that is never woken shows as a livelock: the daemon polls on.
constexpr Bug kBugs[] = {
    {"StampRelaxed", Mutant::kStampRelaxed, expect_found<TwoThreads>, rl::test_result_data_race},
    {"StampBeforeEntry", Mutant::kStampBeforeEntry, expect_found<TwoThreads>,
     rl::test_result_data_race},
    {"CompletionRelaxed", Mutant::kCompletionRelaxed, expect_found<TwoThreads>,
     rl::test_result_data_race},
    {"TurnRelaxed", Mutant::kTurnRelaxed, expect_found<TwoThreads>, rl::test_result_data_race},
    {"AbandonedSlotTakenEarly", Mutant::kAbandonedSlotTakenEarly, expect_found<TwoAbandoning>,
     rl::test_result_data_race},
    {"AbandonedSlotTakenTwice", Mutant::kAbandonedSlotTakenTwice, expect_found<ThreeOneAbandoning>,
     rl::test_result_livelock},
    {"WaitingHolderNotSeen", Mutant::kWaitingHolderNotSeen, expect_found<Promise>,
     rl::test_result_user_assert_failed},
    {"ThreadOfAnEarlierTicket", Mutant::kThreadOfAnEarlierTicket, expect_found<ThreeOneAbandoning>,
     rl::test_result_user_assert_failed},
    {"AbandonedSilently", Mutant::kAbandonedSilently, expect_found<TwoAbandoning>,
     rl::test_result_livelock},
    {"RoomWaiterNotFlagged", Mutant::kRoomWaiterNotFlagged, expect_found<TwoAbandoning>,
     rl::test_result_livelock},
    {"PassedSlotAwaited", Mutant::kPassedSlotAwaited, expect_found<ThreeOneAbandoning>,
     rl::test_result_livelock},
    {"GoneNotCheckedAgain", Mutant::kGoneNotCheckedAgain, expect_found<TwoAbandoning>,
     rl::test_result_livelock},
    {"RoomWordReadLate", Mutant::kRoomWordReadLate, expect_found<Promise>,
     rl::test_result_livelock},
    {"RoomWordNotBumped", Mutant::kRoomWordNotBumped, expect_found<Promise>,
     rl::test_result_livelock},
};
INSTANTIATE_TEST_SUITE_P(Each, SubmissionBugs, testing::ValuesIn(kBugs),
                         [](const auto& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace npu::shm
