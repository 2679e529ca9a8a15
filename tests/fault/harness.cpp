#include "tests/fault/harness.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>

#include "client/api/admin.hpp"
#include "shm/base/failpoint.hpp"
#include "tests/multiproc/rank_group.hpp"
#include "tests/support/process.hpp"

namespace npu::fault {

void short_pause() noexcept { (void)::poll(nullptr, 0, 2); }

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

/// As the daemon names a flight recorder's memory.
constexpr const char* kRecorder = "memfd:flight recorder";

}  // namespace

Group::Group(const std::string& socket, const GroupSpec& spec)
    : world_(spec.world), members_(spec.world) {
  void* page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  NPU_CHECK(page != MAP_FAILED);
  shared_ = ::new (page) Shared;
  for (uint32_t r = 0; r < world_; ++r) {
    const pid_t pid = ::fork();
    NPU_CHECK(pid >= 0);
    if (pid == 0) be_rank(socket, spec, r);
    members_[r].pid = pid;
    members_[r].pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }
}

// noexcept: what a body throws ends the process, as in a program without a handler.
void Group::be_rank(const std::string& socket, const GroupSpec& spec, uint32_t rank) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  if (const auto found = spec.failpoints.find(rank); found != spec.failpoints.end()) {
    NPU_CHECK(failpoint::arm(found->second, static_cast<int>(rank)).has_value());
  }
  auto options = test::attach_options(socket, spec.world, rank, spec.run);
  options.device = spec.first_device + rank;
  ::_exit(test::run_rank(options, [&](client::Device& device) {
    Rank self{device, shared_->reports[rank], shared_->go, spec.world};
    if (const auto checked = operate(self, Op::kDirect, 0); !checked)
      return fail_with(self, checked.error());
    return spec.body(self);
  }));
}

Group::~Group() {
  for (const Member& member : members_) {
    if (!member.code) ::kill(member.pid, SIGKILL);
  }
  for (Member& member : members_) {
    if (!member.code) ::waitpid(member.pid, nullptr, 0);
  }
  ::munmap(shared_, sizeof(Shared));
}

void Group::signal(uint32_t rank, int number) const {
  if (!members_[rank].code) ::kill(members_[rank].pid, number);
}

int Group::wait(uint32_t rank) {
  Member& member = members_[rank];
  if (member.code) return *member.code;
  pollfd ended{member.pidfd.get(), POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(kHang.count())) != 1) return -1;
  int status = 0;
  ::waitpid(member.pid, &status, 0);
  member.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *member.code;
}

bool Group::reaches(uint64_t operations) const {
  return holds_soon([&] {
    for (uint32_t r = 0; r < world_; ++r) {
      if (report(r).done.load() < operations) return false;
    }
    return true;
  });
}

bool Group::stops(uint32_t rank) const {
  return holds_soon([&] { return test::state_of(pid(rank)) == 'T'; });
}

uint64_t Group::digest() const {
  const uint64_t first = report(0).digest.load();
  for (uint32_t r = 1; r < world_; ++r) {
    if (report(r).digest.load() != first) return 0;
  }
  return first;
}

std::string Group::name_of(uint32_t rank) const {
  return fmt::format("rank {} (pid {})", rank, pid(rank));
}

Footprint footprint_of(pid_t daemon) {
  const std::string proc = "/proc/" + std::to_string(daemon);
  Footprint found;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd", ec)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ec);
    found.descriptors += target.find(kRecorder) == std::string::npos ? 1 : 0;
  }
  std::istringstream maps(contents(proc + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    const bool shared = line.find("memfd:") != std::string::npos;
    found.segments += shared && line.find(kRecorder) == std::string::npos ? 1 : 0;
  }
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(proc + "/task", ec)) {
    ++found.threads;
  }
  return found;
}

void FaultTest::start_daemon(const std::string& failpoints, int engine_threads) {
  std::vector<std::string> environment;
  if (!failpoints.empty()) environment.push_back("NPU_FAILPOINTS=" + failpoints);
  daemon_ = std::make_unique<test::DaemonProcess>(
      std::vector<std::string>{"--engine-threads", std::to_string(engine_threads)},
      std::move(environment));
}

void FaultTest::start_bystander() {
  // What a first run leaves for good (its places in tables, the allocator's arenas) is no leak.
  for (const uint32_t world : {2u, 6u}) healthy_[world] = healthy_digest(world);
  // The daemon looks at a client that hung up for 50 ms before it lets its descriptors go.
  constexpr milliseconds kSettled{150};
  Footprint before;
  auto since = Clock::now();
  EXPECT_TRUE(holds_soon([&] {
    const Footprint now = footprint_of(daemon_->pid());
    if (!(now == std::exchange(before, now))) since = Clock::now();
    return now.segments == 0 && Clock::now() - since >= kSettled;
  })) << "an idle daemon still maps "
      << before.segments << " segments";
  baseline_ = before;
  const Body body = [](Rank& rank) {
    for (uint64_t last = 0;;) {
      uint64_t stop = rank.id() == 0 ? rank.go.load() : 0;
      auto work = rank.all().all_reduce(&stop, &stop, 1, DType::kUint64, ReduceOp::kSum);
      if (!work) return fail_with(rank, work.error());
      if (const auto ended = work->wait(); !ended) return fail_with(rank, ended.error());
      const uint64_t now = now_ns();
      if (last != 0 && now - last > rank.report.slowest_ns.load())
        rank.report.slowest_ns.store(now - last);
      last = now;
      rank.report.done.fetch_add(1);
      if (stop != 0) return 0;
    }
  };
  bystander_ = run({.run = "bystander", .world = 2, .first_device = 6, .body = body});
  ASSERT_TRUE(bystander_->reaches(10));
}

std::unique_ptr<Group> FaultTest::run(const GroupSpec& spec) const {
  return std::make_unique<Group>(daemon_->socket(), spec);
}

uint64_t FaultTest::healthy_digest(uint32_t world) const {
  const auto group = run({.run = "healthy", .world = world, .body = [](Rank&) { return 0; }});
  for (uint32_t r = 0; r < world; ++r) {
    EXPECT_EQ(group->wait(r), 0) << "rank " << r << ": " << group->report(r).text;
  }
  EXPECT_NE(group->digest(), 0u) << "the ranks of a healthy run differ";
  return group->digest();
}

void FaultTest::expect_released(Group& group, uint32_t culprit, Code code, const std::string& text,
                                uint64_t since_ns) {
  const uint32_t first = culprit == 0 ? 1 : 0;
  for (uint32_t r = 0; r < group.world(); ++r) {
    if (r == culprit) continue;
    const Report& report = group.report(r);
    EXPECT_EQ(group.wait(r), 0) << "rank " << r << ": " << report.text;
    EXPECT_EQ(code_name(static_cast<Code>(report.code)), code_name(code)) << report.text;
    EXPECT_NE(std::string(report.text).find(text), std::string::npos)
        << "rank " << r << " was told: " << report.text << "\nbut not: " << text;
    EXPECT_STREQ(report.text, group.report(first).text) << "one reason for all";
    EXPECT_EQ(report.done.load(), group.report(first).done.load())
        << "an operation is done for some only";
    const uint64_t ended = report.ended_ns.load();
    if (ended > since_ns) took(ended - since_ns);
  }
}

bool FaultTest::devices_are_free(uint32_t count) const {
  const auto info = client::query_info(daemon_->socket());
  if (!info) return false;
  for (uint32_t d = 0; d < count; ++d) {
    if (info->devices[d].state != "idle") return false;
  }
  return true;
}

void FaultTest::expect_recovered(uint32_t world, const std::string& reason) {
  EXPECT_TRUE(holds_soon([&] { return devices_are_free(world); }))
      << "the daemon does not free the devices";
  // The ranks may have heard of it before the list shows it.
  EXPECT_TRUE(reason.empty() || holds_soon([&] {
                const auto runs = client::list_runs(daemon_->socket());
                return runs && std::any_of(runs->begin(), runs->end(), [&](const auto& run) {
                         return run.last_error.find(reason) != std::string::npos;
                       });
              }))
      << "no run ended because of: " << reason;
  EXPECT_EQ(healthy_digest(world), healthy_.at(world)) << "the next run has other bits";
}

void FaultTest::expect_bystander_saw_nothing() {
  const uint64_t before =
      std::max(bystander_->report(0).done.load(), bystander_->report(1).done.load());
  EXPECT_TRUE(bystander_->reaches(before + 10)) << "the other run stands still";
  bystander_->let_go();
  for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(bystander_->wait(r), 0) << bystander_->report(r).text;
  std::printf("[  TIME    ] longest pause of the other run: %.3f s, after %llu operations\n",
              static_cast<double>(bystander_->report(0).slowest_ns.load()) * 1e-9,
              static_cast<unsigned long long>(bystander_->report(0).done.load()));
}

void FaultTest::TearDown() {
  if (bystander_) expect_bystander_saw_nothing();
  if (!baseline_) return;
  Footprint now;
  EXPECT_TRUE(holds_soon([&] {
    now = footprint_of(daemon_->pid());
    return now.descriptors <= baseline_->descriptors && now.segments == baseline_->segments &&
           now.threads <= baseline_->threads;
  })) << "descriptors, segments, threads: "
      << fmt::format("{} {} {} before, {} {} {} now", baseline_->descriptors, baseline_->segments,
                     baseline_->threads, now.descriptors, now.segments, now.threads);
}

void FaultTest::print_longest(const char* what, const char* bound) const {
  std::printf("[  TIME    ] %s: %.3f s (bound %s)\n", what, static_cast<double>(longest_ns_) * 1e-9,
              bound);
}

}  // namespace npu::fault
