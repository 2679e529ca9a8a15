// What ends a run or keeps a rank out: deadlines, deaths at every phase, a restarted daemon, forged
// descriptors, wrong ways to attach. Real processes, a real daemon.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <cstring>
#include <thread>

#include "client/api/admin.hpp"
#include "shm/futex.hpp"
#include "tests/collectives/rank_body.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::test {
namespace {

using client::CollectiveOptions;
using client::Device;
using client::Work;

constexpr uint64_t kLarge = 1'500'000;  // floats: 6 MB, many slices

float* floats(Device& d) { return reinterpret_cast<float*>(d.arena().data()); }

int report(Device& d, const char* what, const std::optional<Error>& error) {
  std::fprintf(stderr, "rank %u: %s: %s\n", d.rank(), what,
               error ? error->message.c_str() : "it worked");
  return 1;
}

void expect_all(const std::vector<int>& codes, std::initializer_list<size_t> but = {},
                int other = 0) {
  for (size_t r = 0; r < codes.size(); ++r) {
    const bool special = std::find(but.begin(), but.end(), r) != but.end();
    EXPECT_EQ(codes[r], special ? other : 0) << "rank " << r;
  }
}

/// The daemon serves a fresh run of everybody.
void expect_serves(const DaemonProcess& daemon, uint32_t world) {
  expect_all(wait_ranks(fork_ranks(
      daemon.socket(), world, [](Device& d) { return done(d.world().barrier()) ? 0 : 1; },
      "next")));
}

// 31: nobody receives.
TEST(Deadline, ASendWithoutPartnerNamesThePeer) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 3, [](Device& d) {
    if (d.rank() == 1) {
      while (!d.failure()) ::poll(nullptr, 0, 1);
      return 0;
    }
    const auto error = d.rank() == 0 ? error_of(d.world().send(floats(d), 1000, DType::kFloat32, 1,
                                                               {.timeout = milliseconds(300)}))
                                     : error_of(d.world().barrier());
    return says(error, Code::kDeadlineExceeded, "send seq 0 (fp32, to rank 1, 1000 elements)") &&
                   says(error, Code::kDeadlineExceeded, "rank 1 did not arrive")
               ? 0
               : report(d, "send", error);
  })));
}

// 34: zero is never, on every wait path.
TEST(Deadline, ZeroWaitsForAsLongAsItTakes) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 2, [](Device& d) {
    const CollectiveOptions never{.timeout = milliseconds(0)};
    if (d.rank() == 1) ::poll(nullptr, 0, 1500);  // longer than any wait slice
    if (!done(d.world().barrier(never))) return 1;
    if (d.rank() == 0) ::poll(nullptr, 0, 300);
    const auto error =
        error_of(d.rank() == 0 ? d.world().send(floats(d), 1000, DType::kFloat32, 1, never)
                               : d.world().recv(floats(d), 1000, DType::kFloat32, 0, never));
    return error ? report(d, "pair", error) : 0;
  })));
}

// 35: too late is an error, not somebody else's data.
TEST(Deadline, ALateRankGetsTheVerdictAndNoData) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 3, [](Device& d) {
    float* data = floats(d);
    for (int i = 0; i < 1000; ++i) data[i] = 7;
    if (d.rank() == 2) {
      while (!d.failure()) ::poll(nullptr, 0, 1);
    }
    const auto error = error_of(d.world().all_reduce(
        data, data, 1000, DType::kFloat32, ReduceOp::kSum, {.timeout = milliseconds(1500)}));
    if (!says(error, Code::kDeadlineExceeded, "rank 2 did not arrive"))
      return report(d, "late", error);
    return data[0] == 7 && data[999] == 7 ? 0 : 2;
  })));
}

// Operations queued far ahead do not use up their deadline while they wait for their turn.
TEST(Deadline, QueuedOperationsAreNotLateBeforeTheirTurn) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 2, [](Device& d) {
    const CollectiveOptions options{.timeout = milliseconds(2000)};
    std::vector<Work> works;
    for (int i = 0; i < 12; ++i) {
      if (d.rank() == 1) ::poll(nullptr, 0, 250);  // 3 s in all, much less than 2 s each
      auto work = d.world().barrier(options);
      if (!work) return 1;
      works.push_back(std::move(*work));
    }
    for (auto& work : works) {
      auto ended = work.wait();
      if (!ended) return report(d, "queued", ended.error());
    }
    return 0;
  })));
}

enum class Phase { kBeforeSubmit, kSubmitted, kRunning, kBeforeReading };

class Death : public testing::TestWithParam<Phase> {};

[[noreturn]] void die() {
  ::raise(SIGKILL);
  ::_exit(99);
}

/// What the victim does after a first barrier.
void victim(Device& d, Phase phase) {
  auto& w = d.world();
  if (phase == Phase::kBeforeSubmit) die();
  if (phase == Phase::kRunning) {
    for (int i = 0;; ++i) {
      auto work = w.all_reduce(floats(d), floats(d), kLarge, DType::kFloat32, ReduceOp::kSum);
      if (i == 5) die();
      if (!work || !work->wait()) ::_exit(98);
    }
  }
  auto work = w.all_reduce(floats(d), floats(d), kLarge, DType::kFloat32, ReduceOp::kSum);
  if (phase == Phase::kSubmitted || !work) die();
  while (!work->ready()) ::poll(nullptr, 0, 1);
  die();
}

// 36
TEST_P(Death, SurvivorsLearnTheCulpritAndTheDaemonServesTheNextRun) {
  DaemonProcess daemon({"--engine-threads", "2"});
  const Phase phase = GetParam();
  const auto codes = wait_ranks(fork_ranks(daemon.socket(), 5, [phase](Device& d) {
    if (!done(d.world().barrier())) return 1;
    if (d.rank() == 2) victim(d, phase);
    for (;;) {
      const auto error = error_of(
          d.world().all_reduce(floats(d), floats(d), kLarge, DType::kFloat32, ReduceOp::kSum));
      if (!error) continue;
      return says(error, Code::kAborted, "rank 2 (pid") ? 0 : report(d, "death", error);
    }
  }));
  expect_all(codes, {2}, 128 + SIGKILL);
  expect_serves(daemon, 5);
}

std::string phase_name(const testing::TestParamInfo<Phase>& test) {
  constexpr const char* kNames[] = {"BeforeSubmit", "Submitted", "Running", "BeforeReading"};
  return kNames[static_cast<int>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(, Death,
                         testing::Values(Phase::kBeforeSubmit, Phase::kSubmitted, Phase::kRunning,
                                         Phase::kBeforeReading),
                         phase_name);

/// Attach that must fail with `text`.
::testing::AssertionResult refused(client::AttachOptions options, Code code, const char* text) {
  options.join_timeout = milliseconds(2000);
  auto device = Device::attach(options);
  if (device) return ::testing::AssertionFailure() << "it worked";
  if (device.error().code == code && device.error().message.find(text) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << device.error().message;
}

// 40 43
TEST(Attach, WrongRanksWorldsKeysAndSizesAreRefused) {
  DaemonProcess daemon;
  const auto options = [&](uint32_t world, uint32_t rank) {
    return attach_options(daemon.socket(), world, rank);
  };
  EXPECT_TRUE(refused(options(9, 0), Code::kInvalidArgument, "9"));
  EXPECT_TRUE(refused(options(2, 2), Code::kInvalidArgument, "rank 2 of 2"));
  auto huge = options(1, 0);
  huge.arena_bytes = uint64_t{1} << 50;
  EXPECT_TRUE(refused(huge, Code::kResourceExhausted, "device memory"));
  auto staged = options(1, 0);
  staged.staging_bytes = staged.arena_bytes + 1;
  EXPECT_TRUE(refused(staged, Code::kInvalidArgument, "staging"));
  // Rank 0 of 2 waits; nobody may take its place, or join another run under its name.
  std::thread first([&] {
    auto waiting = options(2, 0);
    waiting.join_timeout = milliseconds(20'000);
    auto device = Device::attach(waiting);
    ASSERT_TRUE(device) << device.error().message;
    ASSERT_TRUE(done((*device)->world().barrier()));
    ASSERT_TRUE((*device)->detach());
  });
  while (true) {
    const auto info = client::query_info(daemon.socket());
    if (info && !info->runs.empty()) break;
    ::poll(nullptr, 0, 2);
  }
  auto twice = options(2, 0);
  twice.device = 5;
  EXPECT_TRUE(refused(twice, Code::kUnavailable, "rank 0"));
  EXPECT_TRUE(refused(options(3, 1), Code::kFailedPrecondition, "3"));
  auto stranger = options(2, 1);
  stranger.run_key = "ffffffffffffffffffffffffffffffff";
  EXPECT_FALSE(Device::attach(stranger));
  auto second = Device::attach(options(2, 1));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(done((*second)->world().barrier()));
  EXPECT_TRUE((*second)->detach());
  first.join();
}

// 44: a value that cannot be meant is refused before anything is leased.
TEST(Attach, ABadEnvironmentIsRefusedAndAGoodOneIsUsed) {
  DaemonProcess daemon;
  ::setenv("NPU_COLL_ALGO", "bruck", 1);
  EXPECT_TRUE(refused(attach_options(daemon.socket(), 1, 0), Code::kInvalidArgument,
                      "NPU_COLL_ALGO='bruck'"));
  ::setenv("NPU_COLL_ALGO", "direct,all-reduce=ring", 1);
  ::setenv("NPU_COLL_TIMEOUT", "soon", 1);
  EXPECT_TRUE(
      refused(attach_options(daemon.socket(), 1, 0), Code::kInvalidArgument, "NPU_COLL_TIMEOUT"));
  ::setenv("NPU_COLL_TIMEOUT", "1500ms", 1);
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 2, [](Device& d) {
    auto work = d.world().all_reduce(floats(d), floats(d), 1000, DType::kFloat32, ReduceOp::kSum);
    if (!work) return 1;
    const auto result = work->wait();
    if (!result || result->algorithm != shm::Algorithm::kRing) return 2;
    if (d.rank() == 1) {
      while (!d.failure()) ::poll(nullptr, 0, 1);
      return 0;
    }
    const auto error = error_of(d.world().barrier());
    return says(error, Code::kDeadlineExceeded, "within 1.5 s") ? 0 : report(d, "timeout", error);
  })));
  ::unsetenv("NPU_COLL_ALGO");
  ::unsetenv("NPU_COLL_TIMEOUT");
}

// 39: buffers outside the arena are copied, and counted.
TEST(Staging, OutsideBuffersWorkAndAreCounted) {
  DaemonProcess daemon;
  std::vector<std::thread> ranks;
  std::vector<std::string> wrong(3);
  for (uint32_t r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      auto options = attach_options(daemon.socket(), 3, r);
      options.staging_bytes = uint64_t{1} << 20;
      auto device = Device::attach(options);
      if (!device) {
        wrong[r] = device.error().message;
        return;
      }
      Device& d = **device;
      std::vector<float> in(5000, 1.5f), out(5000);
      for (int i = 0; i < 100; ++i) {
        const auto error = error_of(d.world().all_reduce(in.data(), out.data(), in.size(),
                                                         DType::kFloat32, ReduceOp::kSum));
        if (error) wrong[r] = error->message;
        if (out[4999] != 4.5f || in[0] != 1.5f) wrong[r] = "wrong values";
      }
      if (d.staged_copies() != 200) wrong[r] = fmt::format("{} copies", d.staged_copies());
      std::vector<float> large(400'000);
      const auto error = error_of(d.world().all_reduce(large.data(), large.data(), large.size(),
                                                       DType::kFloat32, ReduceOp::kSum));
      if (!says(error, Code::kResourceExhausted, "wanted")) wrong[r] = "no room was not an error";
      if (!done(d.world().barrier()) || !d.detach()) wrong[r] = "end";
    });
  }
  for (auto& t : ranks) t.join();
  for (const auto& text : wrong) EXPECT_EQ(text, "");
}

/// Writes a descriptor with its own hands, as a broken or hostile client would, and waits for what
/// comes of it.
void forge(Device& d, const std::function<void(shm::Descriptor&)>& fill) {
  const auto& place = d.world().queue().place();
  uint64_t ticket = 0;
  while (place.submit->entries[ticket].stamp.load() == ticket + 1) ++ticket;
  fill(place.submit->entries[ticket]);
  place.submit->entries[ticket].stamp.store(ticket + 1);
  place.hints->doorbell.value.fetch_add(1);
  shm::futex_wake(place.hints->doorbell.value, 1);
  while (!d.failure() && place.status->completions[ticket].stamp.load() != ticket + 1)
    ::poll(nullptr, 0, 1);
}

/// Garbage beyond the stamp; `plausible` says how much of it looks right.
enum class Garbage { kEverything, kGoodGeneration, kGoodCommunicator };

int forger_and_victims(Device& d, Garbage garbage) {
  if (!done(d.world().barrier())) return 1;
  if (d.rank() == 1) {
    forge(d, [&](shm::Descriptor& entry) {
      std::memset(reinterpret_cast<char*>(&entry) + 8, 0xee, sizeof(entry) - 8);
      if (garbage != Garbage::kEverything) entry.generation = d.generation();
      if (garbage == Garbage::kGoodCommunicator) entry.communicator = 0;
    });
    return 0;
  }
  const auto error = error_of(d.world().barrier({.timeout = milliseconds(500)}));
  // A communicator that does not exist is the forger's own error, and rank 1 leaves; garbage in
  // a good communicator is a bad operation for all of that sequence number.
  const bool alone = garbage == Garbage::kGoodGeneration;
  const bool right = says(error, alone ? Code::kAborted : Code::kInvalidArgument, "rank 1");
  return right ? 0 : report(d, "forgery", error);
}

// 39: the daemon survives whatever is in the page; only the forger's run suffers.
TEST(Forgery, HurtsTheForgersRunAndNothingElse) {
  DaemonProcess daemon;
  for (const auto garbage :
       {Garbage::kEverything, Garbage::kGoodGeneration, Garbage::kGoodCommunicator}) {
    expect_all(wait_ranks(fork_ranks(
        daemon.socket(), 3, [garbage](Device& d) { return forger_and_victims(d, garbage); },
        fmt::format("forger-{}", static_cast<int>(garbage)))));
    expect_serves(daemon, 3);
  }
}

// 39: a barrier's element type is nobody's business: it once divided by the size of none.
TEST(Forgery, ABarrierOfAnUnknownTypeIsABarrier) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 3, [](Device& d) {
    if (!done(d.world().barrier())) return 1;
    if (d.rank() != 1) return done(d.world().barrier()) ? 0 : 2;
    forge(d, [&](shm::Descriptor& entry) {
      std::memset(reinterpret_cast<char*>(&entry) + 8, 0, sizeof(entry) - 8);
      entry.generation = d.generation();
      entry.op = static_cast<uint8_t>(shm::Op::kBarrier);
      entry.dtype = 0xee;
    });
    return d.failure() ? 3 : 0;
  })));
  expect_serves(daemon, 3);
}

// 39: lies on the hint page cost time, a wait slice each, and nothing else.
TEST(Forgery, LyingHintsDelayAndDoNotHang) {
  DaemonProcess daemon;
  expect_all(wait_ranks(fork_ranks(daemon.socket(), 3, [](Device& d) {
    for (uint64_t i = 0; i < 12; ++i) {
      if (d.rank() == 1) {
        for (auto& count : d.world().queue().place().hints->arrivals[0].submitted)
          count.store(i % 3 == 0 ? 0 : i % 3 == 1 ? UINT64_MAX : i);
      }
      uint64_t x = i;
      const auto error = error_of(d.world().all_reduce(&x, &x, 1, DType::kUint64, ReduceOp::kSum));
      if (error || x != 3 * i) return report(d, "hints", error);
    }
    return 0;
  })));
}

// 38: ranks of a dead daemon end; a new one in the same place serves.
TEST(Restart, ANewDaemonInTheSamePlaceServes) {
  DaemonProcess daemon;
  for (int generation = 0; generation < 3; ++generation) {
    const auto pids = fork_ranks(daemon.socket(), 3, [](Device& d) {
      for (;;) {
        const auto error = error_of(d.world().barrier());
        if (error) return error->code == Code::kUnavailable ? 0 : report(d, "lost", error);
      }
    });
    for (;;) {
      const auto info = client::query_info(daemon.socket());
      if (info && !info->runs.empty() && info->runs[0].collectives > 10) break;
      ::poll(nullptr, 0, 2);
    }
    daemon.stop(SIGKILL);
    expect_all(wait_ranks(pids));
    daemon.start();
    expect_serves(daemon, 3);
  }
}

}  // namespace
}  // namespace npu::test
