// The checkpoint store: <state-dir>/<uid>/<run>/step-N/, committed whole or not at all, verified
// before use. It alone writes there; it takes uid, run and step, never a path, and it does not log.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint/file_ops.hpp"
#include "daemon/checkpoint/snapshot.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/format/manifest.hpp"

namespace npu::daemon {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kManifestFile = "MANIFEST.json";
inline constexpr const char* kLatestFile = "LATEST";
inline constexpr const char* kBestFile = "BEST";
inline constexpr uint64_t kMaxStateJsonBytes = 16ULL << 20;

/// Something the caller should tell someone about; the operation went on.
struct StoreWarning {
  std::string run;
  uint64_t step = 0;    // 0 when the warning is about no single checkpoint
  std::string tensor;   // the first bad tensor, if one was named
  std::string message;  // one full sentence
};

struct CommitReport {
  std::string path;  // "<state-dir>/<uid>/<run>/step-N", for people
  uint64_t bytes = 0;
  std::chrono::nanoseconds duration{0};
  bool replaced = false;                // this step existed and was replaced
  std::vector<uint64_t> removed_steps;  // rotated out
  std::vector<StoreWarning> warnings;   // durable all the same: LATEST or rotation did not work
};

struct CheckpointInfo {
  std::string run;
  uint64_t step = 0;
  std::string path;
  bool readable = false;     // the manifest holds and the file sizes match; contents are not read
  std::string problem = {};  // why not, one sentence
  bool latest = false;       // the newest readable one of its run
  bool best = false;         // the one that BEST names
  uint64_t sequence = 0;     // commit order inside the run
  int64_t created_unix_ms = 0;
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  uint64_t weights_digest = 0;
};

struct VerifyReport {
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  std::chrono::nanoseconds duration{0};
};

struct OpenFile {
  std::string name;
  UniqueFd fd;  // read-only, close-on-exec, offset 0
  uint64_t size_bytes = 0;
};

/// Verified files. They stay readable although rotation may remove their names.
struct OpenCheckpoint {
  std::string path;
  Manifest manifest;
  std::vector<OpenFile> files;         // model, optimizer, state, manifest
  std::vector<StoreWarning> warnings;  // newer checkpoints that were skipped

  [[nodiscard]] const OpenFile* find(std::string_view name) const noexcept;
};

struct SweepReport {
  uint64_t removed = 0;   // leftovers of writers that died
  uint64_t restored = 0;  // a checkpoint that a dead writer had set aside and not replaced
  std::vector<StoreWarning> warnings;
};

struct StoreOptions {
  FileOps* ops = nullptr;  // nullptr: the real system calls; must outlive the store
  /// How long to wait for another daemon that shares the state directory and writes the same run.
  std::chrono::milliseconds lock_wait{30'000};
};

/// Invariants: (1) a name step-N is a complete checkpoint or it does not exist; (2) replacing or
/// rotating never leaves a run that had a valid checkpoint without one; (3) a failed commit changes
/// nothing that a reader sees. Thread: one thread at a time (the daemon's checkpoint thread).
/// Source: docs/design/003-checkpoint-store.md.
class CheckpointStore {
 public:
  /// `state_dir` is the operator's; missing directories are created 0700. Errors: as errno says.
  [[nodiscard]] static Result<CheckpointStore> open(const std::string& state_dir,
                                                    StoreOptions options = {});

  /// Makes a snapshot durable. Cost: one read, two hashes and one write of every byte, 1 MiB at a
  /// time. Errors: invalid_argument (names, shapes, sizes, keep); data_loss "torn snapshot: ..." or
  /// an I/O error; resource_exhausted (disk full, read-only); unavailable (another daemon holds the
  /// run). After any error the previous checkpoints are untouched.
  [[nodiscard]] Result<CommitReport> commit(const Snapshot& snapshot);

  /// Checkpoints of one run, or of all runs of `uid`; by run, oldest commit first. Reads manifests,
  /// not contents. Errors: not_found for a named run that does not exist; nothing for an unknown
  /// uid without a run is an empty list.
  [[nodiscard]] Result<std::vector<CheckpointInfo>> list(uid_t uid,
                                                         std::optional<std::string_view> run);

  /// Reads every byte and checks every digest. Errors: not_found; data_loss naming the first bad
  /// tensor or file.
  [[nodiscard]] Result<VerifyReport> verify(uid_t uid, std::string_view run, uint64_t step);

  /// Opens and verifies. Errors: as verify().
  [[nodiscard]] Result<OpenCheckpoint> open_step(uid_t uid, std::string_view run, uint64_t step);

  /// The one that BEST names, verified. Errors: not_found (the run has none); data_loss.
  [[nodiscard]] Result<OpenCheckpoint> open_best(uid_t uid, std::string_view run);

  /// The newest that verifies, with a warning for each newer one that does not.
  /// Errors: not_found (the run has no checkpoint); data_loss (it has, none is valid; names the
  /// first problem).
  [[nodiscard]] Result<OpenCheckpoint> open_newest_valid(uid_t uid, std::string_view run);

  /// The number that the run's next commit gets: a checkpoint in memory that was made when it was
  /// this high is newer than all on disk.
  [[nodiscard]] Result<uint64_t> upcoming_sequence(uid_t uid, std::string_view run);

  /// Removes what dead writers left behind, in every run that no live writer holds. Call once at
  /// start.
  [[nodiscard]] Result<SweepReport> sweep();

 private:
  CheckpointStore(std::string state_dir, UniqueFd root, StoreOptions options)
      : state_dir_(std::move(state_dir)), root_(std::move(root)), options_(options) {}

  std::string state_dir_;
  UniqueFd root_;
  StoreOptions options_;
};

}  // namespace npu::daemon
