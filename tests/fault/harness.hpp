// A fault and what it must not do: a real npud, a run that suffers on devices 0 to 5, and on
// devices 6 and 7 another run that must not notice. Ranks are processes; what they say is in shared
// memory.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/device.hpp"
#include "shm/base/fd.hpp"
#include "tests/support/daemon_process.hpp"

namespace npu::fault {

/// Nothing here takes longer unless it hangs; measured times are printed beside their bounds.
inline constexpr milliseconds kHang{30'000};

/// Asks every 2 ms until `condition` holds; false when it does not within the time of a hang.
template <typename Condition>
[[nodiscard]] bool holds_soon(const Condition& condition);
void short_pause() noexcept;

/// What a rank says of itself. Written by the rank, read by the test.
struct Report {
  std::atomic<uint64_t> done{0};      // operations that ended well, the check not counted
  std::atomic<uint64_t> digest{0};    // of the check that comes first
  std::atomic<uint64_t> ended_ns{0};  // when an operation failed
  std::atomic<uint64_t> slowest{0};   // number of the operation that took longest, the first is 1
  std::atomic<uint64_t> slowest_ns{0};
  std::atomic<int64_t> child{0};  // a process that the rank has made
  uint8_t code = 0;               // npu::Code of the failure; 0: none
  char text[1024] = {};
};

/// A rank's half of a test.
struct Rank {
  client::Device& device;
  Report& report;
  std::atomic<uint32_t>& go;  // set by the test
  uint32_t world;

  [[nodiscard]] client::Communicator& all() const { return device.world(); }
  [[nodiscard]] uint32_t id() const { return device.rank(); }
};

/// 0 when all went as the body expects. Runs in the rank's process.
using Body = std::function<int(Rank&)>;

enum class Op : uint8_t {
  kDirect,
  kRing,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier
};
inline constexpr Op kAllOps[] = {Op::kDirect,        Op::kRing,     Op::kBroadcast, Op::kAllGather,
                                 Op::kReduceScatter, Op::kAllToAll, Op::kBarrier};
[[nodiscard]] const char* op_name(Op op) noexcept;

/// Operation number `i` with fresh inputs; every element of the result is checked (internal, if
/// wrong). Number 0 is the check: its result goes into the report as a digest.
[[nodiscard]] Result<void> operate(Rank& rank, Op op, uint64_t i,
                                   const client::CollectiveOptions& options = {});
/// Operations until one fails; the failure is in the report.
[[nodiscard]] int operate_until_failure(Rank& rank, Op op,
                                        const client::CollectiveOptions& options = {});
/// `count` operations, all of which must end well.
[[nodiscard]] int operate_times(Rank& rank, Op op, uint64_t count);
int fail_with(Rank& rank, const Error& error);

struct GroupSpec {
  std::string run = "victim";
  uint32_t world = 6;
  uint32_t first_device = 0;
  Body body;
  std::map<uint32_t, std::string> failpoints;  // by rank, armed before it attaches
};

/// The processes of one run; each does the check first, then the body. Killed and reaped at the
/// end.
class Group {
 public:
  Group(const std::string& socket, const GroupSpec& spec);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] uint32_t world() const noexcept { return world_; }
  [[nodiscard]] pid_t pid(uint32_t rank) const { return members_[rank].pid; }
  [[nodiscard]] const Report& report(uint32_t rank) const { return shared_->reports[rank]; }
  void signal(uint32_t rank, int number) const;
  void let_go() noexcept { shared_->go.store(1); }
  /// Waits for the end: exit code, or 128 + signal; -1 when it hangs.
  [[nodiscard]] int wait(uint32_t rank);
  /// True once every rank has done that many operations.
  [[nodiscard]] bool reaches(uint64_t operations) const;
  /// True once the process is stopped (SIGSTOP).
  [[nodiscard]] bool stops(uint32_t rank) const;
  /// The check's digest, when it is the same on every rank; else 0.
  [[nodiscard]] uint64_t digest() const;
  /// "rank 2 (pid 4711)", as messages name it.
  [[nodiscard]] std::string name_of(uint32_t rank) const;

 private:
  struct Shared {
    std::atomic<uint32_t> go{0};
    std::array<Report, shm::kMaxDevices> reports;
  };
  struct Member {
    pid_t pid = -1;
    UniqueFd pidfd;
    std::optional<int> code;
  };
  [[noreturn]] void be_rank(const std::string& socket, const GroupSpec& spec,
                            uint32_t rank) noexcept;

  uint32_t world_;
  Shared* shared_;  // of all processes
  std::vector<Member> members_;
};

/// What a daemon holds, apart from flight recorders, which it keeps of ended runs on purpose.
struct Footprint {
  size_t descriptors = 0, segments = 0, threads = 0;
  bool operator==(const Footprint&) const = default;
};
[[nodiscard]] Footprint footprint_of(pid_t daemon);

/// The order of a test: start, run, inject, expect_released, expect_recovered. The end checks that
/// the other run saw nothing and that the daemon holds what it held before.
class FaultTest : public testing::Test {
 protected:
  void TearDown() override;

  /// `failpoints`: the daemon's, without "NPU_FAILPOINTS=".
  void start_daemon(const std::string& failpoints = "", int engine_threads = 2);
  /// The run that must not notice; it uses small operations only, which no failpoint of slices
  /// slows.
  void start_bystander();
  [[nodiscard]] test::DaemonProcess& daemon() { return *daemon_; }
  [[nodiscard]] std::unique_ptr<Group> run(const GroupSpec& spec) const;

  /// Every other rank ended with this error, the same for all, which names the culprit; all had the
  /// same operations done: none is done for some only.
  void expect_released(Group& group, uint32_t culprit, Code code, const std::string& text,
                       uint64_t since_ns);
  /// The devices are free, the daemon knows why the run ended (unless `reason` is empty), and a run
  /// on the same devices has the bits of one before the fault.
  void expect_recovered(uint32_t world, const std::string& reason);
  /// The digest of a healthy run.
  [[nodiscard]] uint64_t healthy_digest(uint32_t world) const;
  [[nodiscard]] bool devices_are_free(uint32_t count) const;
  /// Prints the longest of the times that were taken, beside its bound.
  void took(uint64_t ns) noexcept { longest_ns_ = std::max(longest_ns_, ns); }
  void print_longest(const char* what, const char* bound) const;

 private:
  void expect_bystander_saw_nothing();

  std::unique_ptr<test::DaemonProcess> daemon_;
  std::unique_ptr<Group> bystander_;
  std::map<uint32_t, uint64_t> healthy_;
  std::optional<Footprint> baseline_;
  uint64_t longest_ns_ = 0;
};

template <typename Condition>
bool holds_soon(const Condition& condition) {
  const Deadline deadline = Deadline::after(kHang);
  while (!condition()) {
    if (deadline.passed()) return false;
    short_pause();
  }
  return true;
}

}  // namespace npu::fault
