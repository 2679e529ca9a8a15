#include "daemon/checkpoint/memory_store.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "daemon/checkpoint/file_ops.hpp"
#include "daemon/checkpoint/inspect.hpp"
#include "daemon/checkpoint/names.hpp"
#include "daemon/checkpoint/stage.hpp"
#include "shm/base/units.hpp"

namespace npu::daemon {
namespace {

/// The calls of a writer, with memory files instead of a directory's. A second descriptor of each
/// stays here, by name.
class MemoryOps final : public FileOps {
 public:
  std::map<std::string, UniqueFd> files;

  int open(int /*dir*/, const char* name, int /*flags*/, mode_t /*mode*/) override {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid()) return -1;
    const int second = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
    if (second < 0) return -1;
    files[name].reset(second);
    return fd.release();
  }
  int fsync(int /*fd*/) override { return 0; }
};

Result<void> seal(int fd, const std::string& what) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return fail_errno("seal " + what);
  return {};
}

}  // namespace

std::string MemoryCheckpoint::path() const {
  return kMemoryPath + manifest.run + "/" + step_name(manifest.step);
}

Result<OpenCheckpoint> open_verified(const MemoryCheckpoint& checkpoint) {
  OpenCheckpoint out{.path = checkpoint.path(), .manifest = checkpoint.manifest};
  for (const OpenFile& file : checkpoint.files) {
    NPU_TRY(UniqueFd fd, duplicate_fd(file.fd.get()));
    out.files.push_back({file.name, std::move(fd), file.size_bytes});
  }
  if (auto good = verify_files(FileOps::system(), out, out.path); !good) {
    return tl::make_unexpected(std::move(good.error().error));
  }
  return out;
}

Result<void> MemoryStore::admit(uid_t uid, std::string_view run, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  uint64_t used = 0;
  uint32_t others = 0;
  for (const auto& [key, kept] : kept_) {
    if (key.first != uid || key.second == run) continue;
    used += kept.checkpoint->manifest.total_bytes();
    ++others;
  }
  const bool is_new = !kept_.contains(Key{uid, std::string(run)});
  if (others >= limits_.runs_of_uid || (is_new && kept_.size() >= limits_.runs)) {
    return fail_exit(
        Code::kResourceExhausted, Exit::kBusy,
        "1 more run wants to keep a checkpoint in memory, {} of uid {} and {} in all do, "
        "the limits are {} and {}",
        others, uid, kept_.size(), limits_.runs_of_uid, limits_.runs);
  }
  if (used <= limits_.bytes_of_uid && bytes <= limits_.bytes_of_uid - used) return {};
  return fail_exit(
      Code::kResourceExhausted, Exit::kBusy,
      "{} are wanted, uid {} keeps {} of checkpoints in memory besides, the limit is {}; "
      "one on disk frees a run's, a larger device_memory raises the limit",
      format_bytes(bytes), uid, format_bytes(used), format_bytes(limits_.bytes_of_uid));
}

Result<CommitReport> MemoryStore::commit(const Snapshot& snapshot, uint64_t sequence) {
  const auto start = Clock::now();
  MemoryOps ops;
  NPU_TRY(const StagePlan plan, plan_snapshot(snapshot));
  constexpr int kNoDirectory = -1;
  auto made = std::make_shared<MemoryCheckpoint>();
  NPU_TRY(made->manifest, write_checkpoint(ops, kNoDirectory, snapshot, plan, sequence));
  for (const ManifestFile& file : made->manifest.files) {
    NPU_TRY_VOID(seal(ops.files[file.name].get(), file.name + " in memory"));
    made->files.push_back({file.name, std::move(ops.files[file.name]), file.size_bytes});
  }
  CommitReport report;
  report.path = made->path();
  report.bytes = made->manifest.total_bytes();
  std::shared_ptr<const MemoryCheckpoint> older = std::move(made);
  {
    const std::lock_guard lock(mutex_);
    Kept& kept = kept_[Key{snapshot.uid, snapshot.run}];
    std::swap(kept.checkpoint, older);
    kept.used = Clock::now();
  }
  report.replaced = older != nullptr;
  report.duration = Clock::now() - start;
  return report;
}

std::shared_ptr<const MemoryCheckpoint> MemoryStore::find(uid_t uid, std::string_view run) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(Key{uid, std::string(run)});
  return found == kept_.end() ? nullptr : found->second.checkpoint;
}

std::vector<std::shared_ptr<const MemoryCheckpoint>> MemoryStore::all_of(uid_t uid) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const MemoryCheckpoint>> all;
  for (const auto& [key, kept] : kept_) {
    if (key.first == uid) all.push_back(kept.checkpoint);
  }
  return all;
}

std::shared_ptr<const MemoryCheckpoint> MemoryStore::take(uid_t uid, std::string_view run) {
  const std::lock_guard lock(mutex_);
  const auto taken = kept_.extract(Key{uid, std::string(run)});
  return taken.empty() ? nullptr : std::move(taken.mapped().checkpoint);
}

std::vector<std::shared_ptr<const MemoryCheckpoint>> MemoryStore::expire(
    Clock::time_point now, const std::function<bool(uid_t, const std::string&)>& in_use) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const MemoryCheckpoint>> over;
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (in_use(it->first.first, it->first.second)) it->second.used = now;
    if (now - it->second.used < limits_.life) {
      ++it;
      continue;
    }
    over.push_back(std::move(it->second.checkpoint));
    it = kept_.erase(it);
  }
  return over;
}

}  // namespace npu::daemon
