// What a rank may write into its pages: forged stamps, garbage, entries that change while they are
// read, lies on the hint page (F14 to F17).
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/fault/hostile_fixture.hpp"
#include "tests/fuzz/footprint.hpp"

namespace npu::test {
namespace {

using HostileSubmissions = HostileTest;

constexpr uint64_t kArena = 1 << 20;

// F14: there is no tail. A stamp that is not the next one's is no submission.
TEST_F(HostileSubmissions, ForgedStampsAreNoSubmissions) {
  const auto rank = RawRank::attach(socket(), "stamps", 0);
  ASSERT_NE(rank, nullptr);
  uint64_t ticket = 0;
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t ahead : {uint64_t{shm::kQueueDepth}, uint64_t{shm::kQueueDepth} + 1,
                                 uint64_t{1} << 63, uint64_t{0} - 2, uint64_t{0} - 300}) {
      for (uint64_t t = ticket; t < ticket + shm::kQueueDepth; ++t) {
        rank->submit().entries[t % shm::kQueueDepth].stamp.store(t + 1 + ahead);
      }
      rank->kick();
    }
    for (auto& entry : rank->submit().entries) entry.stamp.store(0);
    for (uint64_t end = ticket + 300; ticket < end; ++ticket) {
      ASSERT_TRUE(rank->barrier(ticket)) << ticket;
    }
  }
}

// F14: more than the ring holds. Only the forger's run ends.
TEST_F(HostileSubmissions, AnEntryUsedAgainBeforeItsAnswerEndsTheRun) {
  const auto rank = RawRank::attach(socket(), "again", 0);
  ASSERT_NE(rank, nullptr);
  const auto put = [&](uint64_t ticket, shm::Op op, uint8_t stream) {
    auto& entry = rank->submit().entries[ticket % shm::kQueueDepth];
    entry.generation = rank->generation;
    entry.op = static_cast<uint8_t>(op);
    entry.dtype = static_cast<uint8_t>(DType::kFloat32);
    entry.stream = stream;
    entry.count = 4;
    rank->publish(ticket);
  };
  // From itself, and it sends nothing. The barrier's answer says that all before it were taken.
  for (uint64_t ticket = 0; ticket + 1 < shm::kQueueDepth; ++ticket) put(ticket, shm::Op::kRecv, 0);
  put(shm::kQueueDepth - 1, shm::Op::kBarrier, 1);
  ASSERT_EQ(rank->answer(shm::kQueueDepth - 1), 0);
  put(shm::kQueueDepth, shm::Op::kRecv, 0);
  ASSERT_TRUE(eventually([&] { return rank->aborted(); }));
  EXPECT_NE(std::string(rank->board().abort.text).find("broke the submission protocol"),
            std::string::npos)
      << rank->board().abort.text;
}

/// An entry of noise; the more plausible, the deeper it gets.
void make_noise(std::mt19937_64& rng, uint64_t generation, shm::Descriptor& entry,
                shm::VectorArgs& vectors) {
  auto* words = reinterpret_cast<uint64_t*>(&entry);
  for (size_t i = 1; i < sizeof(entry) / 8; ++i) words[i] = rng();
  for (auto* list : {vectors.send_counts, vectors.send_displs, vectors.recv_counts,
                     vectors.recv_displs}) {
    for (uint32_t r = 0; r < shm::kMaxDevices; ++r) list[r] = rng() % 3 == 0 ? rng() : rng() % 999;
  }
  const uint64_t wild = rng();
  if (wild % 16 != 0) entry.generation = generation;
  if (wild % 8 == 1) return;
  entry.communicator = wild % 7 == 2 ? 64 : 0;
  entry.op = static_cast<uint8_t>(entry.op % (shm::kOpCount + 1));
  entry.dtype = static_cast<uint8_t>(entry.dtype % (kDTypeCount + 1));
  entry.reduce_op = static_cast<uint8_t>(entry.reduce_op % (kReduceOpCount + 1));
  entry.algorithm %= shm::kAlgorithmCount;
  entry.stream = static_cast<uint8_t>(entry.stream % (shm::kMaxStreams - 1));
  entry.flags %= shm::kFlagMask + 1;
  entry.root %= 3;
  const auto near = [&rng](uint64_t limit) { return rng() % 4 == 0 ? rng() : rng() % limit; };
  entry.count = near(1 << 18);
  entry.send_offset = near(kArena + 64) & ~uint64_t{3};
  entry.recv_offset = near(kArena + 64) & ~uint64_t{3};
}

/// Puts a barrier behind what was published; true if it is answered within a moment.
bool answered_soon(const RawRank& rank, uint64_t ticket) {
  auto& entry = rank.submit().entries[ticket % shm::kQueueDepth];
  std::memset(reinterpret_cast<char*>(&entry) + sizeof(entry.stamp), 0,
              sizeof(entry) - sizeof(entry.stamp));
  entry.generation = rank.generation;
  entry.op = static_cast<uint8_t>(shm::Op::kBarrier);
  entry.stream = shm::kMaxStreams - 1;
  rank.publish(ticket);
  for (int i = 0; i < 200 && !rank.aborted(); ++i, ::usleep(100)) {
    if (rank.status().completions[ticket % shm::kQueueDepth].stamp.load() == ticket + 1) return true;
  }
  return false;
}

// F15: the real daemon; a million against the validator alone are validate_fuzz's.
TEST_F(HostileSubmissions, ThousandsOfGarbageEntriesHurtTheirOwnRunsOnly) {
  std::mt19937_64 rng(20261201);
  int entries = 0;
  int runs = 0;
  for (; entries < 4000; ++runs) {
    const auto rank = RawRank::attach(socket(), "noise-" + std::to_string(runs), 0, kArena);
    ASSERT_NE(rank, nullptr);
    // A few, and a barrier, which is answered when all before it were taken. Where one of them waits
    // for a partner that does not exist, or ends the run, the next run goes on.
    for (uint64_t ticket = 0; entries < 4000;) {
      for (int i = 0; i < 16; ++i, ++ticket, ++entries) {
        const uint64_t slot = ticket % shm::kQueueDepth;
        make_noise(rng, rank->generation, rank->submit().entries[slot],
                   rank->submit().vectors[slot]);
        rank->publish(ticket);
      }
      if (!answered_soon(*rank, ticket)) break;
      ++ticket;
    }
  }
  std::printf("[  INFO    ] %d entries in %d runs, seed 20261201\n", entries, runs);
}

// F16: the copy is what is judged, and what is used.
TEST(HostileEntry, ThatBlinksIsJudgedAndUsedAsOneCopy) {
  const auto page = std::make_unique<shm::SubmitPage>();
  auto& entry = page->entries[0];
  auto& vectors = page->vectors[0];
  entry.generation = 7;
  entry.dtype = static_cast<uint8_t>(DType::kFloat32);
  const shm::SubmissionLimits limits{.generation = 7, .arena_bytes = 4096, .size = 4, .rank = 1};
  std::atomic<bool> stop{false};
  std::thread flipper([&] {
    std::mt19937_64 rng(3);
    // Words as a client would store them: each whole, none in step with another.
    const auto put = [](auto& field, uint64_t value) {
      *const_cast<volatile std::remove_reference_t<decltype(field)>*>(&field) =
          static_cast<std::remove_reference_t<decltype(field)>>(value);
    };
    while (!stop.load(std::memory_order_relaxed)) {
      const bool good = rng() % 2 == 0;
      put(entry.op, 1 + rng() % (shm::kOpCount - 1));
      put(entry.count, good ? rng() % 64 : rng());
      put(entry.send_offset, good ? 512 : rng());
      put(entry.recv_offset, good ? 2048 : UINT64_MAX - rng() % 64);
      put(entry.root, good ? 1 : rng());
      for (uint32_t r = 0; r < 4; ++r) {
        put(vectors.send_counts[r], good ? 8 : rng());
        put(vectors.send_displs[r], good ? r * 8 : rng());
        put(vectors.recv_counts[r], good ? 8 : rng());
        put(vectors.recv_displs[r], good ? r * 8 : rng());
      }
    }
  });
  int accepted = 0;
  const Deadline deadline = Deadline::after(kHangLimit);
  // Longer where the other thread does not get its turn.
  for (int i = 0; i < 300'000 || (accepted == 0 && !deadline.passed()); ++i) {
    entry.stamp.store(1);
    shm::SubmissionReader sut(page.get());
    shm::Submission s;
    shm::VectorArgs v{};
    ASSERT_TRUE(sut.pop(s, v));
    if (shm::validate(s, v, limits) != shm::Fault::kNone) continue;
    ++accepted;
    const fuzz::Footprint f = fuzz::footprint(s, v, limits);
    for (const auto* spans : {&f.reads, &f.writes}) {
      for (const fuzz::Span& span : *spans) {
        ASSERT_TRUE(span.begin >= 0 && span.end <= fuzz::Wide(limits.arena_bytes)) << "op " << +s.op;
      }
    }
  }
  stop = true;
  flipper.join();
  EXPECT_GT(accepted, 0);
}

// F16: the real daemon.
TEST_F(HostileSubmissions, EntriesThatBlinkUnderTheDaemonHurtNobody) {
  int attached = 0;
  for (int operations = 0; operations < 3000; ++attached) {
    const auto rank = RawRank::attach(socket(), "blink-" + std::to_string(attached), 0, kArena);
    ASSERT_NE(rank, nullptr);
    std::atomic<bool> stop{false};
    std::thread flipper([&] {
      for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        for (auto& entry : rank->submit().entries) {
          *const_cast<volatile uint64_t*>(&entry.count) = i % 2 == 0 ? 100 : UINT64_MAX / 4 + i;
          *const_cast<volatile uint64_t*>(&entry.recv_offset) = i % 3 == 0 ? 4096 : kArena - 4 + i;
        }
      }
    });
    for (uint64_t ticket = 0; operations < 3000 && !rank->aborted(); ++ticket, ++operations) {
      auto& entry = rank->submit().entries[ticket % shm::kQueueDepth];
      entry.generation = rank->generation;
      entry.op = static_cast<uint8_t>(shm::Op::kAllReduce);
      entry.dtype = static_cast<uint8_t>(DType::kFloat32);
      rank->publish(ticket);
      (void)rank->answer(ticket);
    }
    stop = true;
    flipper.join();
  }
}

// F17: completions have no head that a rank could forge. One that does not read them loses its own.
TEST_F(HostileSubmissions, LiesOnItsPagesAndUnreadAnswersHurtTheLiarOnly) {
  const auto rank = RawRank::attach(socket(), "liar", 0);
  ASSERT_NE(rank, nullptr);
  std::memset(static_cast<void*>(&rank->submit().header), 0xee, sizeof(shm::SegmentHeader));
  std::memset(static_cast<void*>(&rank->hints()), 0xee, sizeof(shm::RunHints));
  rank->submit().rank.waiting.store(UINT32_MAX);
  rank->submit().rank.progress.store(UINT64_MAX);
  rank->submit().rank.staged_copies.store(UINT64_MAX);
  uint64_t ticket = 0;
  for (; ticket < 5 * shm::kQueueDepth; ++ticket) {
    ASSERT_TRUE(rank->barrier(ticket)) << ticket;
    if (ticket % 100 == 0) {
      const auto runs = client::list_runs(socket());
      ASSERT_TRUE(runs) << runs.error().message;
    }
  }
}

// B13: a doorbell that rings without end is not listened to; the run is served all the same.
TEST(HostileDoorbell, DoesNotKeepTheEngineAwake) {
  DaemonProcess daemon;
  const auto rank = RawRank::attach(daemon.socket(), "bell", 0);
  ASSERT_NE(rank, nullptr);
  std::atomic<bool> stop{false};
  std::thread ringer([&] {
    while (!stop.load(std::memory_order_relaxed)) rank->kick();
  });
  const auto begin = Clock::now();
  const uint64_t before = daemon.cpu_us();
  ASSERT_TRUE(eventually([&] { return Clock::now() - begin > std::chrono::milliseconds(1500); }));
  const uint64_t used = daemon.cpu_us() - before;
  EXPECT_TRUE(rank->barrier(0)) << "late, but served";
  stop = true;
  ringer.join();
  EXPECT_TRUE(rank->barrier(1));
  std::printf("[  TIME    ] processor time of 1.5 s: %.3f s\n", static_cast<double>(used) * 1e-6);
  EXPECT_LT(used, 750'000u) << "the engine is kept awake";
}

}  // namespace
}  // namespace npu::test
