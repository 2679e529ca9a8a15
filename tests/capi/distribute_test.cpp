// npu::distribute as a user's program has it: one process a rank, everything from the environment.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <npu/distribute.hpp>
#include <string>
#include <vector>

#include "tests/support/daemon_process.hpp"

namespace npu {
namespace {

using distribute::Reduction;

/// Runs `body` in a process of its own; true when it returns true. The session of a process is
/// joined once, so every test needs fresh ones.
class Child {
 public:
  Child(const std::vector<std::string>& env, const std::function<bool()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK_ID", "RANK_SIZE", "DEVICE_ID"})
      ::unsetenv(name);
    for (const std::string& entry : env) {
      const size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
    // exit, not _exit: the session leaves its run at the end of the program.
    std::exit(body() ? 0 : 1);
  }
  ~Child() {
    if (pid_ > 0) wait();
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;

  bool wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
};

void run_ranks(int n, const std::function<bool()>& body, bool ascend = false) {
  test::DaemonProcess daemon({"--engine-threads", "2"});
  std::vector<Child> ranks;
  for (int r = 0; r < n; ++r) {
    const std::string rank = std::to_string(r), world = std::to_string(n);
    std::vector<std::string> env = {"NPUD_SOCKET=" + daemon.socket()};
    if (ascend) {
      // Another device than the rank's number.
      env.insert(env.end(),
                 {"RANK_ID=" + rank, "RANK_SIZE=" + world, "DEVICE_ID=" + std::to_string(7 - r)});
    } else {
      env.insert(env.end(), {"RANK=" + rank, "WORLD_SIZE=" + world, "LOCAL_RANK=" + rank});
    }
    ranks.emplace_back(env, body);
  }
  for (int r = 0; r < n; ++r) EXPECT_TRUE(ranks[static_cast<size_t>(r)].wait()) << "rank " << r;
}

bool is(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "rank %u: %s\n", distribute::rank(), what);
  return condition;
}

bool ok(const distribute::Status& status) {
  if (!status) std::fprintf(stderr, "%s\n", status.message().c_str());
  return static_cast<bool>(status);
}

/// Root's values of every type; one variable is larger than the staging region takes at once.
bool broadcast_body() {
  const auto mine = static_cast<float>(distribute::rank() + 1);
  std::vector<float> weights((5u << 20) / 4 + 3, mine), empty;
  std::vector<int32_t> steps(3, static_cast<int32_t>(distribute::rank()));
  if (!ok(distribute::broadcast({weights, empty, steps}, 2))) return false;
  bool good = true;
  for (const float w : weights) good = good && w == 3.0F;
  return is(good, "weights") && is(steps == std::vector<int32_t>(3, 2), "steps");
}

bool all_reduce_body() {
  const auto n = static_cast<float>(distribute::size());
  const float mine = static_cast<float>(distribute::rank()) + 1;
  const auto result = [&](Reduction op) {
    std::vector<float> v(17, mine);
    return ok(distribute::all_reduce({v}, op)) ? v[16] : -1.0F;
  };
  std::vector<float> by_default(1000, mine);
  std::vector<int8_t> small(5, static_cast<int8_t>(distribute::rank()));
  std::vector<int32_t> whole(5, static_cast<int32_t>(mine));
  std::vector<uint16_t> half(9, distribute::detail::to_half(mine));
  if (!ok(distribute::all_reduce({by_default}))) return false;
  if (!ok(distribute::all_reduce({small, whole, {half.data(), half.size(), NPU_FLOAT16}},
                                 Reduction::kSum)))
    return false;
  const float sum = n * (n + 1) / 2;
  float product = 1;
  for (float r = 1; r <= n; ++r) product *= r;
  return is(by_default[999] == sum / n, "mean") && is(result(Reduction::kSum) == sum, "sum") &&
         is(result(Reduction::kMax) == n, "max") && is(result(Reduction::kMin) == 1, "min") &&
         is(result(Reduction::kProd) == product, "prod") && is(small[4] == sum - n, "int8") &&
         is(static_cast<float>(whole[4]) == sum, "int32") &&
         is(distribute::detail::from_half(half[8]) == sum, "fp16");
}

/// 1 + 1/4096 is no half: the wire shows.
bool half_wire_body() {
  std::vector<float> v((5u << 20) / 4, 1.0F + 1.0F / 4096);
  if (!ok(distribute::all_reduce({v}, {Reduction::kSum, true}))) return false;
  bool good = true;
  for (const float x : v) good = good && x == static_cast<float>(distribute::size());
  return is(good, "halves");
}

bool shard_body() {
  std::vector<int> samples(22);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int>(i * 10);
  const auto part = distribute::shard_and_rebatch_dataset(samples, 8);
  if (!ok(part.status)) return false;
  const uint32_t n = distribute::size(), r = distribute::rank();
  bool good = part.batch == 8 / n && part.dataset.size() == 22 / n;
  for (size_t i = 0; i < part.dataset.size(); ++i) {
    good = good && part.dataset[i] == static_cast<int>((i * n + r) * 10);
  }
  const auto refused = distribute::shard_and_rebatch_dataset(samples, 10);
  return is(good, "shard") && is(!refused.status, "10 over 4") &&
         is(refused.status.message().find("use 8 or 12") != std::string::npos, "the nearest two");
}

TEST(Distribute, BroadcastGivesEveryRankTheRootsValues) { run_ranks(4, broadcast_body); }

TEST(Distribute, AllReduceKnowsTheReductionsAndTypes) { run_ranks(4, all_reduce_body); }

TEST(Distribute, AscendsWordsMakeARankToo) { run_ranks(2, all_reduce_body, true); }

TEST(Distribute, Fp16OnTheWireRoundsOnce) { run_ranks(2, half_wire_body); }

TEST(Distribute, ShardsAreDisjointAndOfOneSize) { run_ranks(4, shard_body); }

TEST(Distribute, NothingHappensInAProgramThatRunsAlone) {
  EXPECT_TRUE(Child({"NPUD_SOCKET=/nowhere/npud.sock"}, [] {
                std::vector<float> v = {1, 2, 3};
                const std::vector<int> samples(10);
                const auto part = distribute::shard_and_rebatch_dataset(samples, 7);
                return ok(distribute::broadcast({v}, 0)) && ok(distribute::all_reduce({v})) &&
                       is(v == std::vector<float>{1, 2, 3}, "unchanged") && ok(part.status) &&
                       is(part.batch == 7 && part.dataset.size() == 10, "whole");
              }).wait());
}

TEST(Distribute, HalfAnEnvironmentListsTheRest) {
  EXPECT_TRUE(Child({"RANK=0"}, [] {
                std::vector<float> v = {1};
                const auto status = distribute::all_reduce({v});
                return is(!status && status.code() == NPU_INVALID_ARGUMENT, "refused") &&
                       is(status.message().find("WORLD_SIZE, LOCAL_RANK is not") !=
                              std::string::npos,
                          status.message().c_str());
              }).wait());
}

TEST(Distribute, ARankThatIsMissingIsNamed) {
  test::DaemonProcess daemon({"--engine-threads", "1"});
  // Both come; one leaves at once, the other is told who.
  const std::vector<std::string> env = {"NPUD_SOCKET=" + daemon.socket(), "WORLD_SIZE=2"};
  const auto of = [&](const char* rank) {
    std::vector<std::string> all = env;
    all.insert(all.end(), {std::string("RANK=") + rank, std::string("LOCAL_RANK=") + rank});
    return all;
  };
  Child leaver(of("0"), [] {
    if (!distribute::session().status()) return false;
    ::_exit(0);  // without a goodbye
  });
  Child other(of("1"), [] {
    std::vector<float> v = {1};
    const auto status = distribute::all_reduce({v});
    return is(!status && status.message().find("rank 0") != std::string::npos,
              status.message().c_str());
  });
  EXPECT_TRUE(leaver.wait());
  EXPECT_TRUE(other.wait());
}

TEST(HalfPrecision, EveryHalfSurvivesTheWayThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = distribute::detail::from_half(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(distribute::detail::to_half(value), bits) << bits;
  }
}

TEST(HalfPrecision, RoundsToNearestEven) {
  using distribute::detail::to_half;
  EXPECT_EQ(to_half(1.0F + 1.0F / 2048), 0x3c00);  // a tie
  EXPECT_EQ(to_half(1.0F + 3.0F / 2048), 0x3c02);  // a tie upwards
  EXPECT_EQ(to_half(65519.9F), 0x7bff);
  EXPECT_EQ(to_half(65520.0F), 0x7c00);
  EXPECT_EQ(to_half(std::ldexp(1.0F, -25)), 0x0000);
  EXPECT_EQ(to_half(std::ldexp(1.5F, -25)), 0x0001);
  EXPECT_EQ(to_half(-std::ldexp(1.0F, -24)), 0x8001);
  EXPECT_EQ(to_half(std::numeric_limits<float>::quiet_NaN()) & 0x7c00, 0x7c00);
}

}  // namespace
}  // namespace npu
