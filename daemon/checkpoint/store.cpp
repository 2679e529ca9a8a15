#include "daemon/checkpoint/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "daemon/checkpoint/dir_io.hpp"
#include "daemon/checkpoint/inspect.hpp"
#include "daemon/checkpoint/names.hpp"
#include "daemon/checkpoint/publish.hpp"
#include "daemon/checkpoint/stage.hpp"
#include "daemon/checkpoint/usage.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/base/units.hpp"

namespace npu::daemon {
namespace {

Result<void> make_state_dir(const std::string& state_dir) {
  if (::mkdir(state_dir.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno == ENOENT) {
    std::error_code error;
    const auto parent = std::filesystem::path(state_dir).lexically_normal().parent_path();
    std::filesystem::create_directories(parent, error);
    if (error) return fail_errno(error.value(), "create " + parent.string());
    if (::mkdir(state_dir.c_str(), 0700) == 0 || errno == EEXIST) return {};
  }
  return fail_errno("create state directory " + state_dir);
}

// In a shared /tmp somebody else may have made the directory first, to read or to plant
// checkpoints.
Result<void> check_owner(int fd, const std::string& state_dir) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return fail_errno("stat state directory " + state_dir);
  if ((info.st_uid == ::geteuid() || info.st_uid == 0) && (info.st_mode & S_IWOTH) == 0) return {};
  return fail(Code::kPermissionDenied,
              "state directory {} belongs to uid {} with mode {:o}; expected uid {} and no write "
              "permission for others: choose another --state-dir",
              state_dir, info.st_uid, info.st_mode & 07777, ::geteuid());
}

Result<void> lock_run(FileOps& ops, const RunDir& run, std::chrono::milliseconds wait) {
  const auto give_up = Clock::now() + wait;
  while (ops.try_lock(run.fd.get()) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return fail_errno(fmt::format("lock run '{}'", run.run));
    }
    if (Clock::now() >= give_up) {
      return fail(Code::kUnavailable,
                  "lock run '{}' in {}: another daemon has been writing it for {} ms; give each "
                  "daemon its own --state-dir or each run its own name",
                  run.run, run.path, wait.count());
    }
    std::this_thread::sleep_for(milliseconds(5));  // flock has no timeout of its own
  }
  return {};
}

Result<RunDir> open_run(FileOps& ops, int root, const std::string& state_dir, uid_t uid,
                        std::string_view run) {
  NPU_TRY_VOID(check_run_name(run));
  const std::string user = std::to_string(uid);
  const auto not_found = [&](Error&& error) -> Result<RunDir> {
    if (error.code != Code::kNotFound) return tl::make_unexpected(std::move(error));
    return fail(Code::kNotFound, "run '{}' of uid {} has no checkpoint", run, uid);
  };
  auto user_dir = open_dir(ops, root, user, "directory of uid " + user);
  if (!user_dir) return not_found(std::move(user_dir.error()));
  auto dir = open_dir(ops, user_dir->get(), std::string(run), fmt::format("run '{}'", run));
  if (!dir) return not_found(std::move(dir.error()));
  return RunDir{std::move(*dir), std::string(run), fmt::format("{}/{}/{}", state_dir, user, run)};
}

Result<RunDir> ensure_run(FileOps& ops, int root, const std::string& state_dir,
                          const Snapshot& snapshot) {
  const std::string user = std::to_string(snapshot.uid);
  NPU_TRY(const UniqueFd user_dir, ensure_dir(ops, root, user, "directory of uid " + user));
  NPU_TRY(UniqueFd dir,
          ensure_dir(ops, user_dir.get(), snapshot.run, fmt::format("run '{}'", snapshot.run)));
  return RunDir{std::move(dir), snapshot.run,
                fmt::format("{}/{}/{}", state_dir, user, snapshot.run)};
}

// Higher than every readable commit, and than the ones that cannot be read: they may have had the
// next numbers.
Result<uint64_t> next_sequence(FileOps& ops, const RunDir& run) {
  NPU_TRY(const auto steps, scan_run(ops, run));
  uint64_t sequence = 1;
  for (const auto& scanned : steps) {
    sequence = scanned.manifest ? std::max(sequence, scanned.manifest->sequence + 1) : sequence + 1;
  }
  return sequence;
}

// Everything that may fail without a trace: a new directory is written and published, or it is gone
// again.
Result<bool> write_and_publish(FileOps& ops, const RunDir& run, const Snapshot& snapshot,
                               const StagePlan& plan, uint64_t sequence, CommitReport* report) {
  const std::string temp = temp_name(step_name(snapshot.step), ops.nonce());
  if (ops.mkdir(run.fd.get(), temp.c_str(), 0700) != 0) {
    return fail_errno(fmt::format("create {}/{}", run.path, temp));
  }
  NPU_FAILPOINT("ckpt.after_mkdir");
  const auto write = [&]() -> Result<bool> {
    NPU_TRY(const UniqueFd dir, open_dir(ops, run.fd.get(), temp, run.path + "/" + temp));
    NPU_TRY(const Manifest manifest, write_checkpoint(ops, dir.get(), snapshot, plan, sequence));
    report->bytes = manifest.total_bytes();
    return publish(ops, run, temp, snapshot.step, &report->warnings);
  };
  auto replaced = write();
  // What stays behind here is removed by the next commit of the run or by the sweep of the next
  // start.
  if (!replaced) static_cast<void>(remove_entry(ops, run.fd.get(), temp));
  return replaced;
}

/// The old checkpoints are there until the new one is durable, so both count.
Result<void> check_user_limit(FileOps& ops, int root, const Snapshot& snapshot,
                              const StagePlan& plan) {
  if (snapshot.user_limit_bytes == 0) return {};
  NPU_TRY(const uint64_t used, bytes_of_user(ops, root, snapshot.uid));
  const uint64_t wanted =
      plan.model.file_bytes() + plan.optimizer.file_bytes() + snapshot.state_json.size();
  const uint64_t limit = snapshot.user_limit_bytes;
  if (wanted <= limit && used <= limit - wanted) return {};
  return fail_exit(Code::kResourceExhausted, Exit::kCannotWrite,
                   "checkpoint step {} of run '{}': {} are wanted, the checkpoints of uid {} have "
                   "{}, the limit is {} (quotas.checkpoints of npud); keep fewer "
                   "(checkpoint.keep), or ask the administrator to remove old runs",
                   snapshot.step, snapshot.run, format_bytes(wanted), snapshot.uid,
                   format_bytes(used), format_bytes(limit));
}

CheckpointInfo info_of(const RunDir& run, const ScannedStep& scanned) {
  CheckpointInfo info{
      .run = run.run, .step = scanned.step, .path = run.path + "/" + step_name(scanned.step)};
  if (!scanned.manifest) {
    info.problem = scanned.manifest.error().message;
    return info;
  }
  const Manifest& manifest = *scanned.manifest;
  info.readable = true;
  info.sequence = manifest.sequence;
  info.created_unix_ms = manifest.created_unix_ms;
  info.bytes = manifest.total_bytes();
  info.tensors = manifest.tensors.size();
  info.weights_digest = manifest.weights_digest;
  return info;
}

Result<void> append_infos(FileOps& ops, const RunDir& run, std::vector<CheckpointInfo>* out) {
  NPU_TRY(const auto steps, scan_run(ops, run));  // newest first
  NPU_TRY(const auto best, best_step(ops, run, steps));
  for (size_t i = steps.size(); i-- > 0;) {
    out->push_back(info_of(run, steps[i]));
    out->back().latest = i == 0 && out->back().readable;
    out->back().best = best == steps[i].step;
  }
  return {};
}

}  // namespace

uint64_t Snapshot::tensor_bytes() const noexcept {
  uint64_t total = 0;
  for (const auto* file : {&model, &optimizer}) {
    for (const SnapshotTensor& tensor : *file) total += tensor.source.size();
  }
  return total;
}

const OpenFile* OpenCheckpoint::find(std::string_view name) const noexcept {
  const auto it = std::ranges::find(files, name, &OpenFile::name);
  return it == files.end() ? nullptr : &*it;
}

Result<CheckpointStore> CheckpointStore::open(const std::string& state_dir, StoreOptions options) {
  if (options.ops == nullptr) options.ops = &FileOps::system();
  NPU_TRY_VOID(make_state_dir(state_dir));
  UniqueFd root(::open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return fail_errno("open state directory " + state_dir);
  NPU_TRY_VOID(check_owner(root.get(), state_dir));
  return CheckpointStore(state_dir, std::move(root), options);
}

Result<CommitReport> CheckpointStore::commit(const Snapshot& snapshot) {
  const auto start = Clock::now();
  FileOps& ops = *options_.ops;
  NPU_TRY(const StagePlan plan, plan_snapshot(snapshot));
  NPU_TRY(const RunDir run, ensure_run(ops, root_.get(), state_dir_, snapshot));
  NPU_TRY_VOID(lock_run(ops, run, options_.lock_wait));  // until `run` goes out of scope
  NPU_TRY(const SweepReport swept, sweep_run(ops, run));
  NPU_TRY_VOID(check_user_limit(ops, root_.get(), snapshot, plan));

  CommitReport report;
  report.path = run.path + "/" + step_name(snapshot.step);
  report.warnings = swept.warnings;
  NPU_TRY(const uint64_t sequence, next_sequence(ops, run));
  NPU_TRY(report.replaced, write_and_publish(ops, run, snapshot, plan, sequence, &report));

  // Durable from here on: what fails now is reported, but it does not take the checkpoint back.
  NPU_FAILPOINT("ckpt.durable");
  if (snapshot.best) {
    if (auto best = write_best(ops, run, snapshot.step, sequence); !best) {
      report.warnings.push_back({run.run, snapshot.step, {}, best.error().message});
    }
  }
  if (auto latest = write_latest(ops, run, snapshot.step); !latest) {
    report.warnings.push_back({run.run, snapshot.step, {}, latest.error().message});
  }
  NPU_FAILPOINT("ckpt.before_rotation");
  auto rotated = rotate(ops, run,
                        {.committed_step = snapshot.step,
                         .keep = snapshot.keep,
                         .protect_steps = snapshot.protect_steps});
  if (rotated) {
    report.removed_steps = std::move(*rotated);
  } else {
    report.warnings.push_back(
        {run.run, snapshot.step, {}, "old checkpoints stay: " + rotated.error().message});
  }
  NPU_FAILPOINT("ckpt.after_rotation");
  report.duration = Clock::now() - start;
  return report;
}

Result<std::vector<CheckpointInfo>> CheckpointStore::list(uid_t uid,
                                                          std::optional<std::string_view> run) {
  FileOps& ops = *options_.ops;
  std::vector<CheckpointInfo> out;
  if (run) {
    NPU_TRY(const RunDir dir, open_run(ops, root_.get(), state_dir_, uid, *run));
    NPU_TRY_VOID(append_infos(ops, dir, &out));
    if (out.empty()) {
      return fail(Code::kNotFound, "run '{}' of uid {} has no checkpoint", *run, uid);
    }
    return out;
  }
  const std::string user = std::to_string(uid);
  auto user_dir = open_dir(ops, root_.get(), user, "directory of uid " + user);
  if (!user_dir && user_dir.error().code == Code::kNotFound) return out;
  if (!user_dir) return tl::make_unexpected(std::move(user_dir.error()));
  NPU_TRY(const auto names, list_names(ops, user_dir->get(), "directory of uid " + user));
  for (const auto& name : names) {
    if (!check_run_name(name)) continue;  // not ours
    auto dir = open_run(ops, root_.get(), state_dir_, uid, name);
    if (dir) NPU_TRY_VOID(append_infos(ops, *dir, &out));
  }
  return out;
}

Result<VerifyReport> CheckpointStore::verify(uid_t uid, std::string_view run, uint64_t step) {
  const auto start = Clock::now();
  NPU_TRY(const OpenCheckpoint checkpoint, open_step(uid, run, step));
  return VerifyReport{checkpoint.manifest.total_bytes(), checkpoint.manifest.tensors.size(),
                      Clock::now() - start};
}

Result<OpenCheckpoint> CheckpointStore::open_step(uid_t uid, std::string_view run, uint64_t step) {
  FileOps& ops = *options_.ops;
  NPU_TRY(const RunDir dir, open_run(ops, root_.get(), state_dir_, uid, run));
  auto checkpoint = open_verified(ops, dir, step);
  if (checkpoint) return std::move(*checkpoint);
  if (checkpoint.error().error.code == Code::kNotFound) {
    return fail(Code::kNotFound, "run '{}' of uid {} has no checkpoint of step {}", run, uid, step);
  }
  return tl::make_unexpected(std::move(checkpoint.error().error));
}

Result<OpenCheckpoint> CheckpointStore::open_best(uid_t uid, std::string_view run) {
  FileOps& ops = *options_.ops;
  NPU_TRY(const RunDir dir, open_run(ops, root_.get(), state_dir_, uid, run));
  NPU_TRY(const auto steps, scan_run(ops, dir));
  NPU_TRY(const auto best, best_step(ops, dir, steps));
  if (best) return open_step(uid, run, *best);
  return fail(Code::kNotFound,
              "run '{}' of uid {} has no best checkpoint: no validated epoch was above 0 %, or the "
              "checkpoint is gone; `npu ckpt ls` marks it with a plus",
              run, uid);
}

Result<OpenCheckpoint> CheckpointStore::open_newest_valid(uid_t uid, std::string_view run) {
  FileOps& ops = *options_.ops;
  NPU_TRY(const RunDir dir, open_run(ops, root_.get(), state_dir_, uid, run));
  NPU_TRY(const auto steps, scan_run(ops, dir));
  std::vector<StoreWarning> skipped;
  // Without a manifest nobody knows how new it was, so each of those is reported before the search.
  for (const auto& scanned : steps) {
    if (!scanned.manifest) {
      skipped.push_back({dir.run, scanned.step, {}, scanned.manifest.error().message});
    }
  }
  for (const auto& scanned : steps) {
    if (!scanned.manifest) continue;
    auto checkpoint = open_verified(ops, dir, scanned.step);
    if (checkpoint) {
      checkpoint->warnings = std::move(skipped);
      return std::move(*checkpoint);
    }
    Damage& damage = checkpoint.error();
    skipped.push_back({dir.run, scanned.step, damage.tensor, damage.error.message});
  }
  if (skipped.empty()) {
    return fail(Code::kNotFound, "run '{}' of uid {} has no checkpoint", run, uid);
  }
  return fail(Code::kDataLoss, "run '{}' has {} checkpoints and none is valid; {}", run,
              skipped.size(), skipped.front().message);
}

Result<uint64_t> CheckpointStore::upcoming_sequence(uid_t uid, std::string_view run) {
  const auto dir = open_run(*options_.ops, root_.get(), state_dir_, uid, run);
  if (dir) return next_sequence(*options_.ops, *dir);
  if (dir.error().code == Code::kNotFound) return uint64_t{1};
  return tl::make_unexpected(dir.error());
}

Result<SweepReport> CheckpointStore::sweep() {
  FileOps& ops = *options_.ops;
  SweepReport total;
  NPU_TRY(const auto users, list_names(ops, root_.get(), "state directory " + state_dir_));
  for (const auto& user : users) {
    if (!is_uid_name(user)) continue;
    const auto uid = static_cast<uid_t>(std::stoul(user));
    auto user_dir = open_dir(ops, root_.get(), user, "directory of uid " + user);
    if (!user_dir) continue;
    NPU_TRY(const auto runs, list_names(ops, user_dir->get(), "directory of uid " + user));
    for (const auto& name : runs) {
      if (!check_run_name(name)) continue;
      auto run = open_run(ops, root_.get(), state_dir_, uid, name);
      // A run that is locked has a live writer, and its temporary directory is in use.
      if (!run || ops.try_lock(run->fd.get()) != 0) continue;
      auto swept = sweep_run(ops, *run);
      if (!swept) {
        total.warnings.push_back({name, 0, {}, swept.error().message});
        continue;
      }
      total.removed += swept->removed;
      total.restored += swept->restored;
      std::ranges::move(swept->warnings, std::back_inserter(total.warnings));
    }
  }
  return total;
}

}  // namespace npu::daemon
