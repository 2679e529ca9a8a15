// Who holds which device and which ranks make up which run: the rules of joining, leaving and being
// busy. Plain bookkeeping: no sockets, no memory, no threads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/collectives/run_memory.hpp"
#include "daemon/control/quotas.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/messages.hpp"

namespace npu::daemon {

/// One rank's place in a run.
struct Member {
  uint64_t session = 0;  // 0: not joined
  int64_t pid = 0;
  uint32_t device = 0;
  uint64_t bytes = 0;  // of its arena
  bool ready = false;  // its segments exist and were handed over
  bool left = false;   // detached in order
};

/// Commits of one checkpoint, or of one check of the replicas, while ranks report.
struct CommitGathering {
  uint64_t index = 0;  // the ranks' n-th
  int64_t step = -1;
  bool check_only = false;
  bool memory = false;  // kept there, not written
  uint32_t arrived_mask = 0;
  std::array<shm::CheckpointCommit, shm::kMaxDevices> by_rank{};
};

/// A rank that hashes faster than another may be a commit ahead of it, or two when a check and a
/// checkpoint meet; collectives keep it from going further.
inline constexpr size_t kOpenCommits = 4;

struct OpenCommits {
  std::array<CommitGathering, kOpenCommits> gatherings{};  // free: nothing has arrived
  std::array<uint64_t, shm::kMaxDevices> next{};           // index that each rank sends next
  bool any = false;                                        // one was complete on all ranks

  /// The gathering of that index, or a free one; null if there is none.
  [[nodiscard]] CommitGathering* find(uint64_t index) noexcept;

  // Of a run that was taken over, by rank: how many it had made, and which of them were not
  // answered (shm::Reconnect); those it sends again.
  std::array<uint64_t, shm::kMaxDevices> made_before{}, open_before{};

  /// True if the daemon before answered it to this rank.
  [[nodiscard]] bool answered_before(uint32_t rank, uint64_t index) const noexcept;
  /// The first index from `index` on that the rank sends.
  [[nodiscard]] uint64_t next_of(uint32_t rank, uint64_t index) const noexcept;
};

/// A run whose ranks are coming back after a restart of the daemon.
struct Adoption {
  Deadline deadline = Deadline::never();
  uint64_t hints_inode = 0, journal_inode = 0;
  std::array<uint64_t, shm::kMaxDevices> arena_inodes{}, requests{};
  std::array<UniqueFd, shm::kMaxDevices> status_fds;
};

/// One generation of a run.
struct Run {
  uint64_t id = 0;
  std::string name, key;
  int64_t uid = 0;
  int64_t started_unix = 0;  // when its first rank came
  uint64_t job_hash = 0;
  uint32_t world = 0;
  uint64_t rank_bytes = 0;  // arena of the first that came: what is expected of the others
  shm::RunState state = shm::RunState::kForming;
  std::string last_error;
  std::array<Member, shm::kMaxDevices> members;
  std::shared_ptr<RunMemory> memory;
  UniqueFd board_fd, hints_fd, journal_fd;  // handed to each member
  bool survives = false;               // a daemon that comes back: it has a journal
  std::unique_ptr<Adoption> adoption;       // until every rank is back
  OpenCommits commits;
  uint32_t commits_writing = 0;
  uint32_t failed_commits = 0;  // in a row
  bool resumes = false;         // it asked for a checkpoint to go on from
  bool removing = false;
  bool in_engine = false;  // which then tells when the memory is free
  bool resuming = false;   // taken over, and no operation is complete since

  [[nodiscard]] uint32_t joined() const noexcept;
  [[nodiscard]] bool all_ready() const noexcept;
  /// No session holds a place any more.
  [[nodiscard]] bool empty() const noexcept;
};

struct Lease {
  Run* run = nullptr;  // null: idle
  uint32_t rank = 0;
  int64_t pid = 0, uid = 0;
  uint64_t bytes = 0;
  int64_t since_unix = 0;
};

/// What one user's runs hold, and are about to.
struct UserUse {
  uint64_t devices = 0;
  uint64_t memory_bytes = 0;  // of an aborted run until its processes have left it
};

struct JoinRequest {
  std::string run, key;
  uint32_t world = 0, rank = 0, device = 0;
  uint64_t arena_bytes = 0, job_hash = 0;
  uint64_t session = 0;
  int64_t uid = 0, pid = 0, now_unix = 0;
  bool survives = false;  // the daemon's death
  Quota quota{};
  uint64_t reserved_devices = 0;  // of the same user, given to launches whose ranks did not come yet
  bool comes_back = false;  // of a run that an earlier daemon had
};

/// Thread: the control server.
class RunTable {
 public:
  RunTable(uint32_t devices, uint64_t device_memory_bytes);

  /// Takes the device and the place in the run, creating the run for its first rank.
  /// Errors: invalid_argument (ranges); unavailable, exit 75 (device or rank held: names the
  /// holder); failed_precondition (world or job differs); permission_denied (another run key);
  /// resource_exhausted (device memory, quotas: for all ranks of the run at its first one).
  [[nodiscard]] Result<Run*> join(const JoinRequest& request);

  /// Gives the member's device back; the place stays taken until the session ends.
  void free_device(Run& run, uint32_t rank) noexcept;
  /// All devices of the run, at its abort.
  void free_devices(Run& run) noexcept;
  /// The session of `rank` is gone. True if the run has no members left; it is then unnamed: a new
  /// run of the same name is a new generation.
  [[nodiscard]] bool leave(Run& run, uint32_t rank) noexcept;
  /// A run that is over does not block its name any more.
  void unname(Run& run) noexcept;
  /// Drops the run for good.
  void erase(uint64_t id) noexcept;

  [[nodiscard]] Run* find(uint64_t id) noexcept;
  /// The run that has the name now, forming or running.
  [[nodiscard]] const Run* find_named(int64_t uid, const std::string& run) const noexcept;
  [[nodiscard]] UserUse use_of(int64_t uid) const noexcept;
  [[nodiscard]] uint32_t busy_devices() const noexcept;
  [[nodiscard]] const std::vector<Lease>& leases() const noexcept { return leases_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Run>>& runs() const noexcept { return runs_; }
  [[nodiscard]] uint64_t device_memory_bytes() const noexcept { return device_memory_bytes_; }

 private:
  [[nodiscard]] Result<void> check_ranges(const JoinRequest& r) const;
  [[nodiscard]] Result<void> check_device(const JoinRequest& r) const;
  [[nodiscard]] Result<void> check_run(const Run& run, const JoinRequest& r) const;
  [[nodiscard]] Result<void> check_quotas(const Run* run, const JoinRequest& r) const;
  [[nodiscard]] Run& create(const JoinRequest& r);

  uint64_t device_memory_bytes_;
  std::vector<Lease> leases_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::map<std::pair<int64_t, std::string>, Run*> by_name_;
  uint64_t next_run_ = 1;  // also the generation: never reused
};

}  // namespace npu::daemon
