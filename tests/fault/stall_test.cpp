// F06, F07, F12, F13: ranks that do not die but do not do their part either.
#include <signal.h>

#include "client/api/admin.hpp"
#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

using client::CollectiveOptions;

class StallTest : public FaultTest {
 protected:
  /// Until the first operation of the others fails, `idle` does nothing.
  std::unique_ptr<Group> run_with_idle(std::vector<uint32_t> idle) {
    return run({.body = [idle = std::move(idle)](Rank& rank) {
      if (operate_times(rank, Op::kDirect, 3) != 0) return 1;
      const bool idles = std::find(idle.begin(), idle.end(), rank.id()) != idle.end();
      while (idles && !rank.device.failure()) short_pause();
      const auto ended = operate(rank, Op::kDirect, 4, {.timeout = milliseconds(1000)});
      return ended ? 2 : fail_with(rank, ended.error()) - 1;
    }});
  }

  void expect_missing(Group& group, const std::string& text) {
    for (uint32_t r = 0; r < group.world(); ++r) {
      ASSERT_EQ(group.wait(r), 0) << "rank " << r << ": " << group.report(r).text;
      EXPECT_EQ(group.report(r).code, static_cast<uint8_t>(Code::kDeadlineExceeded));
      EXPECT_NE(std::string(group.report(r).text).find(text), std::string::npos)
          << group.report(r).text;
    }
    expect_recovered(6, text);
  }
};

// F13
TEST_F(StallTest, RankThatNeverJoinsIsNamedAtTheDeadline) {
  start_daemon();
  start_bystander();
  const auto group = run_with_idle({3});
  expect_missing(
      *group,
      fmt::format("rank 3 did not arrive within 1 s (rank 3: pid {}, last submitted seq 3); "
                  "ranks 0-2,4-5 waited",
                  group->pid(3)));
}

TEST_F(StallTest, AllWhoNeverJoinAreNamed) {
  start_daemon();
  start_bystander();
  const auto group = run_with_idle({1, 3});
  expect_missing(*group,
                 fmt::format("ranks 1,3 did not arrive within 1 s (rank 1: pid {}", group->pid(1)));
}

/// What is on a device's memory while others come and go: a pattern that must stay.
int hold_pattern(Rank& rank) {
  const auto arena = rank.device.arena();
  std::fill(arena.begin(), arena.end(), std::byte{0x5a});
  rank.report.done.store(1);
  while (rank.go.load() == 0) short_pause();
  const bool same =
      std::all_of(arena.begin(), arena.end(), [](std::byte b) { return b == std::byte{0x5a}; });
  return same ? operate_times(rank, Op::kRing, 5) : 2;
}

// F06, F07: the stopped rank is named; when it wakes up it finds itself out, and writes into
// nobody's memory.
TEST_F(StallTest, StoppedRankIsNamedAndWakesUpOutsideTheNextRun) {
  start_daemon();
  start_bystander();
  GroupSpec spec{.body = [](Rank& rank) {
    const CollectiveOptions options{.timeout = milliseconds(2000)};
    const int ended = operate_until_failure(rank, Op::kDirect, options);
    if (ended != 0 || rank.id() != 2) return ended;
    const auto arena = rank.device.arena();
    std::fill(arena.begin(), arena.end(), std::byte{0xee});
    return operate(rank, Op::kDirect, 1, options) ? 2 : 0;  // and it stays out
  }};
  spec.failpoints[2] = "coll.before_submit=stop@6";
  const auto group = run(spec);
  ASSERT_TRUE(group->stops(2));
  const std::string reason =
      fmt::format("rank 2 did not arrive within 2 s (rank 2: pid {}", group->pid(2));
  expect_released(*group, 2, Code::kDeadlineExceeded, reason, now_ns());
  print_longest("released", "2 to 2.5 s");

  // It still holds its memory, and that can be seen; the device is free all the same.
  ASSERT_TRUE(holds_soon([&] { return devices_are_free(6); }));
  const auto info = client::query_info(daemon().socket());
  ASSERT_TRUE(info);
  const bool shown =
      std::any_of(info->runs.begin(), info->runs.end(), [&](const client::RunInfo& run) {
        return run.state == "aborted" && run.ranks.size() > 2 && run.ranks[2].pid == group->pid(2);
      });
  EXPECT_TRUE(shown) << "the stopped rank is not shown as a holder";

  const auto next = run({.run = "victim", .body = hold_pattern});  // the same name, too
  ASSERT_TRUE(next->reaches(1));
  const uint64_t woken = now_ns();
  group->signal(2, SIGCONT);
  ASSERT_EQ(group->wait(2), 0) << group->report(2).text;
  EXPECT_NE(std::string(group->report(2).text).find(reason), std::string::npos)
      << group->report(2).text;
  std::printf("[  TIME    ] evicted after it woke up: %.3f s (bound 0.2 s)\n",
              static_cast<double>(group->report(2).ended_ns.load() - woken) * 1e-9);
  next->let_go();
  for (uint32_t r = 0; r < 6; ++r)
    EXPECT_EQ(next->wait(r), 0) << "rank " << r << ": " << next->report(r).text;
  expect_recovered(6, reason);
}

/// How rank 2 differs from the others.
struct Difference {
  const char* field;
  std::function<Result<client::Work>(Rank&, bool)> submit;  // true: the odd one
};

std::vector<Difference> differences() {
  const auto reduce = [](Rank& rank, uint64_t count, DType dtype, ReduceOp op) {
    std::byte* const at = rank.device.arena().data();
    return rank.all().all_reduce(at, at, count, dtype, op);
  };
  return {
      {"count",
       [=](Rank& r, bool odd) {
         return reduce(r, odd ? 999 : 1000, DType::kFloat32, ReduceOp::kSum);
       }},
      {"data type",
       [=](Rank& r, bool odd) {
         return reduce(r, 1000, odd ? DType::kFloat16 : DType::kFloat32, ReduceOp::kSum);
       }},
      {"reduce op",
       [=](Rank& r, bool odd) {
         return reduce(r, 1000, DType::kFloat32, odd ? ReduceOp::kMax : ReduceOp::kSum);
       }},
      {"operation",
       [=](Rank& r, bool odd) {
         return odd ? r.all().barrier() : reduce(r, 1000, DType::kFloat32, ReduceOp::kSum);
       }},
      {"root",
       [](Rank& r, bool odd) {
         return r.all().broadcast(r.device.arena().data(), 1000, DType::kFloat32, odd ? 1 : 0);
       }},
  };
}

// F12: the operation fails on all ranks, the run goes on.
TEST_F(StallTest, MismatchNamesBothRanksAndSignaturesAndTheRunGoesOn) {
  start_daemon();
  start_bystander();
  for (const Difference& difference : differences()) {
    SCOPED_TRACE(difference.field);
    const auto group = run({.body = [&](Rank& rank) {
      if (operate_times(rank, Op::kDirect, 2) != 0) return 1;
      auto work = difference.submit(rank, rank.id() == 2);
      if (!work) return fail_with(rank, work.error());
      const auto ended = work->wait();
      if (ended) return 2;
      (void)fail_with(rank, ended.error());
      return operate_times(rank, Op::kRing, 10);
    }});
    for (uint32_t r = 0; r < 6; ++r) {
      const Report& report = group->report(r);
      ASSERT_EQ(group->wait(r), 0) << "rank " << r << ": " << report.text;
      EXPECT_EQ(report.code, static_cast<uint8_t>(Code::kFailedPrecondition));
      const std::string text = report.text;
      EXPECT_EQ(text.find(fmt::format("ranks 0 and 2 differ in {}: ", difference.field)), 0u)
          << text;
      EXPECT_NE(text.find(" against "), std::string::npos) << text;
    }
  }
  expect_recovered(6, "");
}

}  // namespace
}  // namespace npu::fault
