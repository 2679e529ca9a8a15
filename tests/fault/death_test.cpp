// F01 to F05, F08: a rank dies, at every point of an operation and in every way.
#include <signal.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "tests/fault/harness.hpp"

namespace npu::fault {
namespace {

/// Places in the life of an operation; `sent`: the others may still get it done.
struct Cut {
  const char* name;
  const char* failpoint;
  bool sent;
};

void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.name; }

constexpr Cut kCuts[] = {{"BeforeSubmit", "coll.before_submit", false},
                         {"EntryHalfWritten", "coll.entry_half_written", false},
                         {"BeforeKick", "coll.before_kick", true},
                         {"AfterSubmit", "coll.after_submit", true},
                         {"BeforeWait", "coll.before_wait", true},
                         {"AfterWait", "coll.after_wait", true}};

/// The check passes every place once, so this is the third operation.
constexpr uint64_t kFatal = 4;

class DeathTest : public FaultTest {
 protected:
  /// One run in which `victim` dies by its failpoint.
  void die(const std::string& failpoint, Op op, uint32_t world, uint32_t victim, bool sent) {
    SCOPED_TRACE(
        fmt::format("{} of {} ranks, rank {} dies at {}", op_name(op), world, victim, failpoint));
    GroupSpec spec{.world = world,
                   .body = [op](Rank& rank) { return operate_until_failure(rank, op); }};
    spec.failpoints[victim] = failpoint;
    const auto group = run(spec);
    ASSERT_EQ(group->wait(victim), 128 + SIGKILL);
    expect_released(*group, victim, Code::kAborted, group->name_of(victim) + " died", now_ns());
    const uint64_t done = group->report(victim == 0 ? 1 : 0).done.load();
    EXPECT_GE(done, kFatal - 2);
    EXPECT_LE(done, kFatal - (sent ? 1 : 2));
    expect_recovered(world, group->name_of(victim) + " died");
  }

  /// Stopped before, so that none of them can end by itself because of another's death. Returns
  /// when.
  static uint64_t kill_at_once(const Group& group, std::initializer_list<uint32_t> ranks) {
    for (const uint32_t r : ranks) group.signal(r, SIGSTOP);
    for (const uint32_t r : ranks) EXPECT_TRUE(group.stops(r));
    const uint64_t now = now_ns();
    for (const uint32_t r : ranks) group.signal(r, SIGKILL);
    return now;
  }

  /// A run of six, endless; `end_rank` 2 by some means.
  void end_rank_two(const std::function<void(Group&)>& means, const Body& body, int code) {
    const auto group = run({.body = body});
    ASSERT_TRUE(group->reaches(5));
    means(*group);
    ASSERT_EQ(group->wait(2), code);
    expect_released(*group, 2, Code::kAborted, group->name_of(2) + " died", now_ns());
    expect_recovered(6, group->name_of(2) + " died");
  }
};

class CutTest : public DeathTest, public testing::WithParamInterface<Cut> {};

// F01, F03, and the rows of B5.2 that lie between.
TEST_P(CutTest, TheOthersAreReleasedAndToldWhoDied) {
  start_daemon();
  start_bystander();
  for (const uint32_t world : {2u, 6u}) {
    for (const Op op : kAllOps) {
      for (const uint32_t victim : std::set<uint32_t>{0, world / 2, world - 1}) {
        die(fmt::format("{}=kill@{}", GetParam().failpoint, kFatal), op, world, victim,
            GetParam().sent);
      }
    }
  }
  print_longest("released", "0.5 s");
}

INSTANTIATE_TEST_SUITE_P(, CutTest, testing::ValuesIn(kCuts),
                         [](const testing::TestParamInfo<Cut>& test) { return test.param.name; });

// F02: the engine is made slow, so that the operation is being executed when the rank dies.
TEST_F(DeathTest, WhileTheEngineWorksNobodyGetsAHalfResult) {
  start_daemon("engine.slice=sleep:5ms@every", 1);
  start_bystander();
  const auto fatal =
      fmt::format("coll.after_submit=sleep:15ms@{0},coll.after_submit=kill@{0}", kFatal);
  for (const Op op : kAllOps) {
    for (const uint32_t victim : {0u, 3u, 5u}) die(fatal, op, 6, victim, true);
  }
  print_longest("released", "0.5 s");
}

// F04
TEST_F(DeathTest, OfTwoAtOnceOneIsNamed) {
  start_daemon();
  start_bystander();
  for (int round = 0; round < 5; ++round) {
    const auto group =
        run({.body = [](Rank& rank) { return operate_until_failure(rank, Op::kDirect); }});
    ASSERT_TRUE(group->reaches(5));
    const uint64_t begin = kill_at_once(*group, {1, 4});
    ASSERT_EQ(group->wait(1), 128 + SIGKILL);
    ASSERT_EQ(group->wait(4), 128 + SIGKILL);
    for (const uint32_t r : {0u, 2u, 3u, 5u}) {
      ASSERT_EQ(group->wait(r), 0) << group->report(r).text;
      EXPECT_STREQ(group->report(r).text, group->report(0).text) << "one record";
      took(group->report(r).ended_ns.load() - begin);
    }
    const std::string text = group->report(0).text;
    const bool first = text.find(group->name_of(1) + " died") == 0;
    EXPECT_TRUE(first || text.find(group->name_of(4) + " died") == 0) << text;
    expect_recovered(6, text);
  }
  print_longest("released", "0.5 s");
}

TEST_F(DeathTest, AllAtOnceLeaveNothing) {
  start_daemon();
  start_bystander();
  for (int round = 0; round < 5; ++round) {
    const auto group =
        run({.body = [](Rank& rank) { return operate_until_failure(rank, Op::kRing); }});
    ASSERT_TRUE(group->reaches(5));
    const uint64_t begin = kill_at_once(*group, {0, 1, 2, 3, 4, 5});
    for (uint32_t r = 0; r < 6; ++r) ASSERT_EQ(group->wait(r), 128 + SIGKILL);
    ASSERT_TRUE(holds_soon([&] { return devices_are_free(6); }));
    took(now_ns() - begin);
    expect_recovered(6, "died");
  }
  print_longest("devices free", "0.5 s");
}

// F05: whatever a process dies of, also of its own will and without detaching.
TEST_F(DeathTest, ByACrashIsADeath) {
  start_daemon();
  start_bystander();
  GroupSpec spec{.body = [](Rank& rank) { return operate_until_failure(rank, Op::kDirect); }};
  spec.failpoints[2] = fmt::format("coll.before_submit=segv@{}", kFatal);
  const auto group = run(spec);
  ASSERT_EQ(group->wait(2), 128 + SIGSEGV);
  expect_released(*group, 2, Code::kAborted, group->name_of(2) + " died", now_ns());
  expect_recovered(6, group->name_of(2) + " died");
  print_longest("released", "0.5 s");
}

TEST_F(DeathTest, ByExitWithoutAWordIsADeath) {
  start_daemon();
  start_bystander();
  const Body body = [](Rank& rank) {
    while (rank.id() == 2) {
      if (operate_times(rank, Op::kDirect, 10) != 0) return 1;
      ::_exit(0);
    }
    return operate_until_failure(rank, Op::kDirect);
  };
  end_rank_two([](Group&) {}, body, 0);
}

TEST_F(DeathTest, ByAnUncaughtExceptionIsADeath) {
  start_daemon();
  start_bystander();
  const Body body = [](Rank& rank) {
    if (rank.id() == 2) {
      if (operate_times(rank, Op::kDirect, 10) != 0) return 1;
      throw std::runtime_error("a bug of the user's");
    }
    return operate_until_failure(rank, Op::kDirect);
  };
  end_rank_two([](Group&) {}, body, 128 + SIGABRT);
}

// F08: a stopped process has no pidfd event until it dies.
TEST_F(DeathTest, OfAStoppedRankIsNoticed) {
  start_daemon();
  start_bystander();
  end_rank_two(
      [](Group& group) {
        group.signal(2, SIGSTOP);
        ASSERT_TRUE(group.stops(2));
        group.signal(2, SIGKILL);
      },
      [](Rank& rank) { return operate_until_failure(rank, Op::kDirect); }, 128 + SIGKILL);
  print_longest("released", "0.5 s");
}

}  // namespace
}  // namespace npu::fault
