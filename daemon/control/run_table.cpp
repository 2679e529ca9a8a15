#include "daemon/control/run_table.hpp"

#include <algorithm>
#include <ctime>

#include "shm/base/units.hpp"

namespace npu::daemon {
namespace {

std::string clock_time(int64_t unix_time) {
  const auto t = static_cast<time_t>(unix_time);
  tm local{};
  ::localtime_r(&t, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

}  // namespace

uint32_t Run::joined() const noexcept {
  return static_cast<uint32_t>(std::count_if(members.begin(), members.end(),
                                             [](const Member& m) { return m.session != 0; }));
}

bool Run::all_ready() const noexcept {
  return std::all_of(members.begin(), members.begin() + world,
                     [](const Member& m) { return m.ready; });
}

bool Run::empty() const noexcept { return joined() == 0; }

bool OpenCommits::answered_before(uint32_t rank, uint64_t index) const noexcept {
  const uint64_t made = made_before[rank];
  if (index >= made) return false;
  const uint64_t bit = made - 1 - index;
  return bit >= 64 || (open_before[rank] & (uint64_t{1} << bit)) == 0;
}

CommitGathering* OpenCommits::find(uint64_t index) noexcept {
  CommitGathering* free = nullptr;
  for (CommitGathering& one : gatherings) {
    if (one.arrived_mask == 0) {
      free = &one;
    } else if (one.index == index) {
      return &one;
    }
  }
  return free;
}

uint64_t OpenCommits::next_of(uint32_t rank, uint64_t index) const noexcept {
  const uint64_t made = made_before[rank];
  if (index < made && made - index > 64) index = made - 64;  // nothing older is open
  while (index < made && answered_before(rank, index)) ++index;
  return index;
}

RunTable::RunTable(uint32_t devices, uint64_t device_memory_bytes)
    : device_memory_bytes_(device_memory_bytes), leases_(devices) {}

Result<void> RunTable::check_ranges(const JoinRequest& r) const {
  if (!shm::valid_run_name(r.run)) {
    return fail(Code::kInvalidArgument,
                "attach: the run name must be 1 to 64 of a-z 0-9 . _ -, and not '.' or '..'");
  }
  if (r.world == 0 || r.world > leases_.size() || r.rank >= r.world) {
    return fail(Code::kInvalidArgument,
                "attach to run '{}': rank {} of {} is not possible; this daemon has {} devices",
                r.run, r.rank, r.world, leases_.size());
  }
  if (r.device >= leases_.size()) {
    return fail(Code::kInvalidArgument, "attach device {}: this daemon has devices 0 to {}",
                r.device, leases_.size() - 1);
  }
  if (r.arena_bytes == 0 || r.arena_bytes > device_memory_bytes_) {
    return fail(
        Code::kResourceExhausted,
        "attach device {}: the run wants {} of device memory, 0 are used, the limit is {}; use a "
        "smaller batch or raise device_memory_bytes",
        r.device, format_bytes(r.arena_bytes), format_bytes(device_memory_bytes_));
  }
  return {};
}

Result<void> RunTable::check_device(const JoinRequest& r) const {
  const Lease& lease = leases_[r.device];
  if (lease.run == nullptr) return {};
  if (lease.uid != r.uid) {
    return fail_exit(Code::kUnavailable, Exit::kBusy,
                     "attach device {}: another user holds it since {}; run `npu info`", r.device,
                     clock_time(lease.since_unix));
  }
  return fail_exit(
      Code::kUnavailable, Exit::kBusy,
      "attach device {} for pid {}: rank {} (pid {}) of run '{}' holds it since {}; run `npu info`",
      r.device, r.pid, lease.rank, lease.pid, lease.run->name, clock_time(lease.since_unix));
}

Result<void> RunTable::check_run(const Run& run, const JoinRequest& r) const {
  if (run.key != r.key) {
    // Same user, other launch: naming the holder helps and tells nothing that `npu info` does not.
    const auto first = std::find_if(run.members.begin(), run.members.end(),
                                    [](const Member& m) { return m.session != 0; });
    return fail_exit(
        Code::kUnavailable, Exit::kBusy,
        "join run '{}': another launch of it is going on (pid {}); wait for it or change the "
        "job's name",
        r.run, first != run.members.end() ? first->pid : 0);
  }
  if (run.state != shm::RunState::kForming) {
    // Of a rank that its supervisor starts again this may pass: exit 75, try again.
    return fail_exit(
        Code::kUnavailable, Exit::kBusy,
        "join run '{}' as rank {}: it is complete (rank 0 is pid {}); wait for its end", r.run,
        r.rank, run.members[0].pid);
  }
  if ((run.adoption != nullptr) != r.comes_back) {
    return fail_exit(Code::kUnavailable, Exit::kBusy,
                     "join run '{}' as rank {}: {}; wait for its end", r.run, r.rank,
                     r.comes_back ? "ranks of it have attached since npud was restarted"
                                  : "npud was restarted and its ranks are coming back");
  }
  if (run.world != r.world) {
    return fail(Code::kFailedPrecondition,
                "join run '{}': rank {} says {} ranks, the others say {}", r.run, r.rank, r.world,
                run.world);
  }
  if (run.job_hash != r.job_hash) {
    return fail(
        Code::kFailedPrecondition,
        "join run '{}': rank {}'s job ({:016x}) is not the others' ({:016x}); start all ranks "
        "with the same file and --set options",
        r.run, r.rank, r.job_hash, run.job_hash);
  }
  if (run.survives != r.survives) {
    return fail(
        Code::kFailedPrecondition,
        "join run '{}': rank {} {} wait for a daemon that dies, the others {}; start all ranks "
        "with the same collectives.reconnect",
        r.run, r.rank, r.survives ? "is to" : "is not to", r.survives ? "are not" : "are");
  }
  if (run.members[r.rank].session != 0) {
    return fail_exit(Code::kUnavailable, Exit::kBusy, "join run '{}': pid {} is rank {} already",
                     r.run, run.members[r.rank].pid, r.rank);
  }
  return {};
}

Result<void> RunTable::check_quotas(const Run* run, const JoinRequest& r) const {
  const std::string what =
      run == nullptr ? fmt::format("attach {} ranks of run '{}'", r.world, r.run)
                     : fmt::format("attach rank {} of run '{}'", r.rank, r.run);
  UserUse use = use_of(r.uid);
  uint64_t bytes = r.arena_bytes;
  if (run == nullptr) {
    // Whole or not at all: a run of which some ranks fit would only wait for the others.
    NPU_TRY_VOID(check_quota(
        r.quota, {QuotaKind::kDevices, r.world, use.devices + r.reserved_devices}, r.uid, what));
    bytes *= r.world;
  } else {
    use.memory_bytes -= std::min(use.memory_bytes, run->rank_bytes);  // expected, and here it is
  }
  return check_quota(r.quota, {QuotaKind::kMemory, bytes, use.memory_bytes}, r.uid, what);
}

UserUse RunTable::use_of(int64_t uid) const noexcept {
  UserUse use;
  for (const auto& run : runs_) {
    if (run->uid != uid) continue;
    const bool forming = run->state == shm::RunState::kForming;
    for (uint32_t r = 0; r < run->world; ++r) {
      const Member& member = run->members[r];
      const bool here = member.session != 0;
      if (here || forming) use.memory_bytes += here ? member.bytes : run->rank_bytes;
      if ((here && run->state == shm::RunState::kRunning) || forming) ++use.devices;
    }
  }
  return use;
}

uint32_t RunTable::busy_devices() const noexcept {
  uint32_t mask = 0;
  for (size_t d = 0; d < leases_.size(); ++d) mask |= leases_[d].run != nullptr ? 1U << d : 0;
  return mask;
}

Run& RunTable::create(const JoinRequest& r) {
  auto run = std::make_unique<Run>();
  run->id = next_run_++;
  run->name = r.run;
  run->key = r.key;
  run->uid = r.uid;
  run->started_unix = r.now_unix;
  run->world = r.world;
  run->job_hash = r.job_hash;
  run->survives = r.survives;
  run->rank_bytes = r.arena_bytes;
  run->memory = std::make_shared<RunMemory>();
  run->memory->id = run->id;
  run->memory->generation = run->id;
  run->memory->world = r.world;
  run->memory->uid = r.uid;
  run->memory->name = r.run;
  by_name_[{r.uid, r.run}] = run.get();
  runs_.push_back(std::move(run));
  return *runs_.back();
}

Result<Run*> RunTable::join(const JoinRequest& r) {
  NPU_TRY_VOID(check_ranges(r));
  const auto found = by_name_.find({r.uid, r.run});
  if (found != by_name_.end()) NPU_TRY_VOID(check_run(*found->second, r));
  NPU_TRY_VOID(check_quotas(found != by_name_.end() ? found->second : nullptr, r));
  NPU_TRY_VOID(check_device(r));
  Run& run = found != by_name_.end() ? *found->second : create(r);
  if (found == by_name_.end() && r.comes_back) run.adoption = std::make_unique<Adoption>();
  Member& member = run.members[r.rank];
  member = {.session = r.session, .pid = r.pid, .device = r.device, .bytes = r.arena_bytes};
  leases_[r.device] = {&run, r.rank, r.pid, r.uid, r.arena_bytes, r.now_unix};
  return &run;
}

void RunTable::free_device(Run& run, uint32_t rank) noexcept {
  Lease& lease = leases_[run.members[rank].device];
  // The device may have gone to another run since this one was aborted.
  if (lease.run == &run && lease.rank == rank) lease = Lease{};
}

void RunTable::free_devices(Run& run) noexcept {
  for (Lease& lease : leases_) {
    if (lease.run == &run) lease = Lease{};
  }
}

bool RunTable::leave(Run& run, uint32_t rank) noexcept {
  free_device(run, rank);
  run.members[rank].session = 0;
  if (!run.empty()) return false;
  unname(run);
  return true;
}

void RunTable::unname(Run& run) noexcept {
  const auto found = by_name_.find({run.uid, run.name});
  if (found != by_name_.end() && found->second == &run) by_name_.erase(found);
}

void RunTable::erase(uint64_t id) noexcept {
  std::erase_if(runs_, [id](const std::unique_ptr<Run>& run) { return run->id == id; });
}

const Run* RunTable::find_named(int64_t uid, const std::string& run) const noexcept {
  const auto found = by_name_.find({uid, run});
  return found == by_name_.end() ? nullptr : found->second;
}

Run* RunTable::find(uint64_t id) noexcept {
  const auto found = std::find_if(runs_.begin(), runs_.end(),
                                  [id](const std::unique_ptr<Run>& run) { return run->id == id; });
  return found == runs_.end() ? nullptr : found->get();
}

}  // namespace npu::daemon
