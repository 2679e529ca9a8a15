// Checkpoints that this process keeps in memory, between two on the disk: sealed memory files with
// the layout, the manifest and the digests of checkpoint files. They outlive ranks and launcher and
// end with the daemon.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/checkpoint/store.hpp"
#include "shm/base/clock.hpp"

namespace npu::daemon {

/// One checkpoint. Immutable; its files are sealed against writing.
struct MemoryCheckpoint {
  Manifest manifest;            // sequence: of the disk's next commit at that time
  std::vector<OpenFile> files;  // as manifest.files

  /// "memory:RUN/step-N": what people see where a path would be.
  [[nodiscard]] std::string path() const;
};

/// Duplicates the files after reading every byte of them. Errors: data_loss naming the first bad
/// tensor: the host's memory is damaged.
[[nodiscard]] Result<OpenCheckpoint> open_verified(const MemoryCheckpoint& checkpoint);

struct MemoryLimits {
  uint64_t bytes_of_uid = 0;  // while one is replaced it is there twice
  uint32_t runs_of_uid = 16;  // each takes three descriptors
  uint32_t runs = 64;
  std::chrono::nanoseconds life = std::chrono::minutes(10);  // without a run that uses it
};

/// The newest checkpoint in memory of each run. Thread: any; admit() and expire() are the control
/// server's, the others the checkpoint thread's, in the order of commits.
class MemoryStore {
 public:
  explicit MemoryStore(MemoryLimits limits) noexcept : limits_(limits) {}

  /// May this run keep so many bytes? Errors: resource_exhausted with wanted, used and limit.
  [[nodiscard]] Result<void> admit(uid_t uid, std::string_view run, uint64_t bytes) const;

  /// Copies a snapshot; the run's older one is let go. `sequence`: CheckpointStore's next. Errors:
  /// as CheckpointStore::commit, but for what concerns the disk; the older one then stays.
  [[nodiscard]] Result<CommitReport> commit(const Snapshot& snapshot, uint64_t sequence);

  /// The run's checkpoint, null if it has none.
  [[nodiscard]] std::shared_ptr<const MemoryCheckpoint> find(uid_t uid, std::string_view run) const;
  /// All of a user's, by name.
  [[nodiscard]] std::vector<std::shared_ptr<const MemoryCheckpoint>> all_of(uid_t uid) const;

  /// The caller lets go of the memory, which takes a while for a large one.
  std::shared_ptr<const MemoryCheckpoint> take(uid_t uid, std::string_view run);
  /// Those that no run has used for the time of their life; `in_use` says which are.
  [[nodiscard]] std::vector<std::shared_ptr<const MemoryCheckpoint>> expire(
      Clock::time_point now, const std::function<bool(uid_t, const std::string&)>& in_use);

 private:
  using Key = std::pair<uid_t, std::string>;
  struct Kept {
    std::shared_ptr<const MemoryCheckpoint> checkpoint;
    Clock::time_point used;
  };

  const MemoryLimits limits_;
  mutable std::mutex mutex_;
  std::map<Key, Kept> kept_;
};

}  // namespace npu::daemon
