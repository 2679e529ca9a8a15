// F28: npud is killed and started again; the ranks stay, and no call of theirs notices. It dies at
// every place of an operation and of the taking over itself; sums over buffers in place show a
// slice that was folded twice, or not at all (docs/design/019-daemon-restart.md).
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>

#include "client/api/admin.hpp"
#include "client/api/device.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/process.hpp"

namespace npu::fault {
namespace {

using client::Communicator;
using client::Device;

constexpr uint32_t kWorld = 4;
constexpr uint64_t kCount = 200'001;  // floats: 13 slices, the last a short one
constexpr milliseconds kHang{60'000};

/// A rank's half: each operation of a round has values that its number decides.
class Worker {
 public:
  Worker(Device& device, shm::Algorithm algorithm)
      : device_(device),
        all_(device.world()),
        algorithm_(algorithm),
        data_(reinterpret_cast<float*>(device.arena().data())) {}

  /// Empty if all was right.
  std::string rounds(uint64_t n, const std::function<void()>& pause) {
    for (uint64_t i = 1; i <= n; ++i) {
      pause();
      for (const auto step : {&Worker::two_in_place, &Worker::with_sums, &Worker::one_root,
                              &Worker::scattered, &Worker::small, &Worker::around}) {
        const std::string wrong = (this->*step)(i);
        if (!wrong.empty()) return "round " + std::to_string(i) + ": " + wrong;
      }
    }
    return {};
  }

 private:
  float mine(uint64_t e, uint64_t i) const {
    return static_cast<float>(all_.rank() + 1) + static_cast<float>((e + i) % 5);
  }
  static float sum(uint64_t e, uint64_t i) {
    return kWorld * (kWorld + 1) / 2 + static_cast<float>(kWorld * ((e + i) % 5));
  }
  void fill(float* to, uint64_t n, uint64_t i) const {
    for (uint64_t e = 0; e < n; ++e) to[e] = mine(e, i);
  }
  static std::string check(const float* got, uint64_t n, uint64_t i, const char* what) {
    for (uint64_t e = 0; e < n; ++e) {
      if (got[e] != sum(e, i)) {
        return std::string(what) + ": element " + std::to_string(e) + " is " +
               std::to_string(got[e]) + ", not " + std::to_string(sum(e, i));
      }
    }
    return {};
  }
  static std::string end_of(Result<client::Work>& work) {
    if (!work) return work.error().message;
    const auto done = work->wait();
    return done ? std::string() : done.error().message;
  }

  client::CollectiveOptions options(bool sum_squares = false) const {
    client::CollectiveOptions o;
    o.algorithm = algorithm_;
    o.sum_squares = sum_squares;
    return o;
  }

  /// Two outstanding, on buffers of their own.
  std::string two_in_place(uint64_t i) {
    float* const second = data_ + kCount;
    fill(data_, kCount, i);
    fill(second, kCount, i + 1);
    auto a = all_.all_reduce(data_, data_, kCount, DType::kFloat32, ReduceOp::kSum, options());
    auto b = all_.all_reduce(second, second, kCount, DType::kFloat32, ReduceOp::kSum, options());
    std::string wrong = end_of(a);
    if (wrong.empty()) wrong = check(data_, kCount, i, "all-reduce");
    if (wrong.empty()) wrong = end_of(b);
    return wrong.empty() ? check(second, kCount, i + 1, "second all-reduce") : wrong;
  }

  std::string with_sums(uint64_t i) {
    fill(data_, kCount, i);
    if (all_.rank() == 1) data_[kCount / 2] = std::numeric_limits<float>::infinity();
    auto work =
        all_.all_reduce(data_, data_, kCount, DType::kFloat32, ReduceOp::kMax, options(true));
    if (!work) return work.error().message;
    const auto done = work->wait();
    if (!done) return done.error().message;
    if (!done->found_inf || !done->result_inf) return "an infinity was not found";
    fill(data_, kCount, i);
    work = all_.all_reduce(data_, data_, kCount, DType::kFloat32, ReduceOp::kSum, options(true));
    if (!work) return work.error().message;
    const auto again = work->wait();
    if (!again) return again.error().message;
    double squares = 0;
    for (uint64_t e = 0; e < kCount; ++e) squares += double{sum(e, i)} * double{sum(e, i)};
    if (again->found_inf || again->result_inf) return "an infinity that is not there";
    return again->sum_squares == squares ? "" : "sum of squares";
  }

  std::string one_root(uint64_t i) {
    const auto root = static_cast<uint32_t>(i % kWorld);
    fill(data_, kCount, i);
    auto work = all_.reduce(data_, data_, kCount, DType::kFloat32, ReduceOp::kSum, root);
    const std::string wrong = end_of(work);
    return wrong.empty() && all_.rank() == root ? check(data_, kCount, i, "reduce") : wrong;
  }

  std::string scattered(uint64_t i) {
    const uint64_t part = kCount / kWorld;
    fill(data_, part * kWorld, i);
    float* const own = data_ + all_.rank() * part;
    auto work = all_.reduce_scatter(data_, own, part, DType::kFloat32, ReduceOp::kSum);
    const std::string wrong = end_of(work);
    if (!wrong.empty()) return wrong;
    for (uint64_t e = 0; e < part; ++e) {
      if (own[e] != sum(all_.rank() * part + e, i)) return "reduce-scatter";
    }
    return {};
  }

  /// What travels in the entries, and what moves nothing.
  std::string small(uint64_t i) {
    auto value = static_cast<int64_t>(all_.rank() + i);
    auto work = all_.all_reduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum);
    std::string wrong = end_of(work);
    const auto wanted = static_cast<int64_t>(kWorld * i + kWorld * (kWorld - 1) / 2);
    if (wrong.empty() && value != wanted) wrong = "a sum of numbers";
    auto barrier = all_.barrier();
    return wrong.empty() ? end_of(barrier) : wrong;
  }

  /// Sends and receives, one of them with itself.
  std::string around(uint64_t i) {
    const uint32_t next = (all_.rank() + 1) % kWorld, before = (all_.rank() + kWorld - 1) % kWorld;
    float* const in = data_ + kCount;
    fill(data_, 50'000, i);
    using Kind = client::PointToPoint::Kind;
    int64_t word = 0, echo = -1;
    word = static_cast<int64_t>(i);
    const client::PointToPoint items[] = {{Kind::kSend, data_, 50'000, DType::kFloat32, next},
                                          {Kind::kRecv, in, 50'000, DType::kFloat32, before},
                                          {Kind::kSend, &word, 1, DType::kInt64, all_.rank()},
                                          {Kind::kRecv, &echo, 1, DType::kInt64, all_.rank()}};
    auto batch = all_.batch(items);
    if (!batch) return batch.error().message;
    if (const auto done = batch->wait(); !done) return done.error().message;
    if (echo != word) return "a word to itself";
    for (uint64_t e = 0; e < 50'000; ++e) {
      if (in[e] != static_cast<float>(before + 1) + static_cast<float>((e + i) % 5)) return "recv";
    }
    return {};
  }

  Device& device_;
  Communicator& all_;
  shm::Algorithm algorithm_;
  float* data_;
};

class TakeoverTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
  }

  void start_ranks(const std::string& socket, shm::Algorithm algorithm, uint64_t rounds,
                   milliseconds reconnect = kHang) {
    for (uint32_t r = 0; r < kWorld; ++r) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(be_rank(socket, algorithm, rounds, reconnect, r));
      pids_.push_back(pid);
    }
  }

  static int be_rank(const std::string& socket, shm::Algorithm algorithm, uint64_t rounds,
                     milliseconds reconnect, uint32_t rank) {
    client::AttachOptions options = test::attach_options(socket, kWorld, rank, "survivor");
    options.reconnect = reconnect;
    auto device = Device::attach(options);
    if (!device) return say(rank, device.error().message, 100);
    const size_t before = test::open_fds(::getpid());
    Worker worker(**device, algorithm);
    const std::string wrong = worker.rounds(rounds, [] {});
    if (!wrong.empty()) return say(rank, wrong, 101);
    if (test::open_fds(::getpid()) != before) return say(rank, "descriptors are left", 102);
    if (auto left = (*device)->detach(); !left) return say(rank, left.error().message, 103);
    return 0;
  }
  static int say(uint32_t rank, const std::string& what, int code) {
    std::fprintf(stderr, "rank %u: %s\n", rank, what.c_str());
    return code;
  }

  /// Codes of the ranks once all have ended; whenever the daemon dies it is started again, with
  /// `failpoints` for the first `deaths` lives. -1: hangs.
  std::vector<int> watch(test::DaemonProcess& daemon, const std::string& failpoints, int deaths) {
    const Deadline deadline = Deadline::after(kHang);
    std::vector<int> codes(kWorld, -1);
    size_t over = 0;
    while (over < kWorld && !deadline.passed()) {
      for (uint32_t r = 0; r < kWorld; ++r) {
        int status = 0;
        if (pids_[r] <= 0 || ::waitpid(pids_[r], &status, WNOHANG) != pids_[r]) continue;
        codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pids_[r] = -1;
        ++over;
      }
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(daemon.pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
              0 &&
          info.si_pid != 0) {
        (void)daemon.stop(SIGKILL);
        ++died_;
        daemon.set_environment(died_ < deaths
                                   ? std::vector<std::string>{"NPU_FAILPOINTS=" + failpoints}
                                   : std::vector<std::string>{});
        daemon.spawn();
      }
      (void)::poll(nullptr, 0, 2);
    }
    return codes;
  }

  /// True once this daemon has completed an operation of the run.
  static bool moves(const test::DaemonProcess& daemon) {
    const Deadline deadline = Deadline::after(kHang);
    while (!deadline.passed()) {
      const auto info = client::query_info(daemon.socket());
      if (info && !info->devices.empty() && info->devices[0].collectives > 0) return true;
      (void)::poll(nullptr, 0, 2);
    }
    return false;
  }

  int died_ = 0;
  std::vector<pid_t> pids_;
};

struct Cut {
  const char* name;
  const char* failpoints;
  shm::Algorithm algorithm;
  int deaths = 3;
};
void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.name; }

constexpr auto kDirect = shm::Algorithm::kDirect, kRing = shm::Algorithm::kRing;

class TakeoverCutTest : public TakeoverTest, public testing::WithParamInterface<Cut> {};

TEST_P(TakeoverCutTest, NoCallOfTheRanksNotices) {
  const Cut& cut = GetParam();
  test::DaemonProcess daemon({"--engine-threads", "2"},
                             {std::string("NPU_FAILPOINTS=") + cut.failpoints});
  start_ranks(daemon.socket(), cut.algorithm, 12);
  const auto codes = watch(daemon, cut.failpoints, cut.deaths);
  for (uint32_t r = 0; r < kWorld; ++r) EXPECT_EQ(codes[r], 0) << "rank " << r;
  EXPECT_EQ(died_, cut.deaths) << "the daemon does not come to the place";
  const auto info = client::query_info(daemon.socket());
  ASSERT_TRUE(info);
  for (const auto& device : info->devices) EXPECT_EQ(device.state, "idle") << device.id;
}

// The hits are beyond the first operations of a life, so that a daemon that took over has gone on.
INSTANTIATE_TEST_SUITE_P(
    , TakeoverCutTest,
    testing::Values(Cut{"Gathering", "engine.gathering=kill@61", kDirect},
                    Cut{"InASlice", "engine.slice=kill@33", kDirect},
                    Cut{"Folded", "engine.before_mark=kill@47", kDirect},
                    Cut{"FoldedAndMarked", "engine.folded=kill@52", kDirect},
                    Cut{"CopiedOut", "engine.copied=kill@55", kDirect},
                    Cut{"EverySliceDone", "engine.reduced=kill@5", kDirect},
                    Cut{"VerdictIsThere", "engine.announced=kill@14", kDirect},
                    Cut{"BetweenCompletions", "engine.before_completion=kill@30", kDirect},
                    Cut{"BeforeTheWake", "engine.before_wake=kill@13", kDirect},
                    Cut{"RingInARound", "engine.slice=kill@40", kRing},
                    Cut{"RingFinished", "engine.before_mark=kill@47", kRing},
                    Cut{"RingMarked", "engine.folded=kill@52", kRing},
                    Cut{"RingAtLast", "engine.copied=kill@55", kRing},
                    Cut{"RingBetweenCompletions", "engine.before_completion=kill@31", kRing}),
    [](const testing::TestParamInfo<Cut>& test) { return test.param.name; });

/// It dies in the middle of an operation, and again while it takes the run over.
class TakeoverAgainTest : public TakeoverTest, public testing::WithParamInterface<const char*> {};

TEST_P(TakeoverAgainTest, DeathWhileTakingOverIsTakenOver) {
  test::DaemonProcess daemon({}, {"NPU_FAILPOINTS=engine.folded=kill@50"});
  start_ranks(daemon.socket(), kDirect, 6);
  const auto codes = watch(daemon, GetParam(), 2);
  for (uint32_t r = 0; r < kWorld; ++r) EXPECT_EQ(codes[r], 0) << "rank " << r;
  EXPECT_EQ(died_, 2);
}

INSTANTIATE_TEST_SUITE_P(Places, TakeoverAgainTest,
                         testing::Values("adopt.before_join=kill@3", "adopt.all_back=kill",
                                         "adopt.answered=kill@1", "adopt.answered=kill@3",
                                         "adopt.answered=kill@4", "engine.copied=kill@1"));

// A daemon that dies twice in the attempt does not try a third time.
TEST_F(TakeoverTest, TwoDeathsInTheAttemptAreEnough) {
  test::DaemonProcess daemon({}, {"NPU_FAILPOINTS=engine.folded=kill@50"});
  start_ranks(daemon.socket(), kDirect, 6);
  const auto codes = watch(daemon, "adopt.all_back=kill", 3);
  for (uint32_t r = 0; r < kWorld; ++r) EXPECT_EQ(codes[r], 101) << "rank " << r;
  EXPECT_EQ(died_, 3);
  EXPECT_TRUE(client::query_info(daemon.socket()));
}

// F28: whenever it comes.
TEST_F(TakeoverTest, TenDeathsAtAnyMomentAreSurvived) {
  test::DaemonProcess daemon;
  start_ranks(daemon.socket(), shm::Algorithm::kAuto, 400);
  uint64_t random = 0x9e3779b97f4a7c15;
  for (int death = 0; death < 10; ++death) {
    // Each daemon has gone on with the run before it dies: the guard counts attempts.
    ASSERT_TRUE(moves(daemon));
    random = random * 6364136223846793005u + 1442695040888963407u;
    (void)::poll(nullptr, 0, static_cast<int>(random >> 59));
    (void)daemon.stop(SIGKILL);
    daemon.start();
  }
  const auto codes = watch(daemon, "", 0);
  for (uint32_t r = 0; r < kWorld; ++r) EXPECT_EQ(codes[r], 0) << "rank " << r;
}

TEST_F(TakeoverTest, ADaemonThatDoesNotComeBackIsWaitedForAsLongAsAsked) {
  test::DaemonProcess daemon;
  start_ranks(daemon.socket(), kDirect, 100'000, milliseconds(700));
  ASSERT_TRUE(moves(daemon));
  (void)daemon.stop(SIGKILL);
  const auto begin = Clock::now();
  for (uint32_t r = 0; r < kWorld; ++r) {
    int status = 0;
    ::waitpid(pids_[r], &status, 0);
    pids_[r] = -1;
    EXPECT_EQ(WEXITSTATUS(status), 101);
  }
  EXPECT_GE(Clock::now() - begin, milliseconds(600));
  daemon.start();
}

// A rank that dies with the daemon does not come back: the others are told which.
TEST_F(TakeoverTest, ARankThatDoesNotComeBackIsNamed) {
  test::DaemonProcess daemon;
  start_ranks(daemon.socket(), kDirect, 100'000);
  ASSERT_TRUE(moves(daemon));
  (void)daemon.stop(SIGKILL);
  ::kill(pids_[2], SIGKILL);
  ::waitpid(pids_[2], nullptr, 0);
  pids_[2] = -1;
  daemon.start();
  for (const uint32_t r : {0u, 1u, 3u}) {
    int status = 0;
    ::waitpid(pids_[r], &status, 0);
    pids_[r] = -1;
    EXPECT_EQ(WEXITSTATUS(status), 101);
  }
}

}  // namespace
}  // namespace npu::fault
