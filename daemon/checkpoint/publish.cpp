#include "daemon/checkpoint/publish.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>

#include "daemon/checkpoint/dir_io.hpp"
#include "daemon/checkpoint/names.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::daemon {
namespace {

enum class Placed : uint8_t { kFresh, kExchanged, kAside };

bool exists(FileOps& ops, const RunDir& run, const std::string& name) {
  return open_dir(ops, run.fd.get(), name, name).has_value();
}

// For file systems without the flags of renameat2 (NFS, some FUSE). The lock makes "look, then
// rename" safe, and a directory that is not empty is never overwritten by rename anyway.
Result<Placed> place_without_flags(FileOps& ops, const RunDir& run, const std::string& temp,
                                   const std::string& name, const std::string& aside) {
  const int dir = run.fd.get();
  if (!exists(ops, run, name)) {
    NPU_TRY_VOID(rename_entry(ops, dir, temp, name, 0));
    return Placed::kFresh;
  }
  NPU_TRY_VOID(rename_entry(ops, dir, name, aside, 0));
  if (auto moved = rename_entry(ops, dir, temp, name, 0); !moved) {
    // If this fails too, the next sweep restores it.
    static_cast<void>(rename_entry(ops, dir, aside, name, 0));
    return tl::make_unexpected(std::move(moved.error()));
  }
  return Placed::kAside;
}

Result<Placed> place(FileOps& ops, const RunDir& run, const std::string& temp,
                     const std::string& name, const std::string& aside) {
  const int dir = run.fd.get();
  if (ops.rename(dir, temp.c_str(), name.c_str(), RENAME_NOREPLACE) == 0) return Placed::kFresh;
  if (errno == EEXIST) {
    if (ops.rename(dir, temp.c_str(), name.c_str(), RENAME_EXCHANGE) == 0)
      return Placed::kExchanged;
  }
  if (errno == EINVAL || errno == ENOSYS) {
    return place_without_flags(ops, run, temp, name, aside);
  }
  return fail_errno(fmt::format("publish run '{}' {}", run.run, name));
}

// What readers see goes back to what it was. Best effort: it runs because something failed already,
// and every intermediate state is one that the next sweep understands.
void unplace(FileOps& ops, const RunDir& run, Placed placed, const std::string& temp,
             const std::string& name, const std::string& aside) {
  const int dir = run.fd.get();
  if (placed == Placed::kExchanged) {
    static_cast<void>(rename_entry(ops, dir, temp, name, RENAME_EXCHANGE));
    return;
  }
  static_cast<void>(rename_entry(ops, dir, name, temp, 0));
  if (placed == Placed::kAside) static_cast<void>(rename_entry(ops, dir, aside, name, 0));
}

}  // namespace

Result<bool> publish(FileOps& ops, const RunDir& run, const std::string& temp, uint64_t step,
                     std::vector<StoreWarning>* warnings) {
  const std::string name = step_name(step);
  const std::string aside = aside_name(name, ops.nonce());
  NPU_TRY(const Placed placed, place(ops, run, temp, name, aside));
  NPU_FAILPOINT("ckpt.after_rename");
  if (auto flushed = sync(ops, run.fd.get(), fmt::format("run '{}'", run.run)); !flushed) {
    unplace(ops, run, placed, temp, name, aside);
    return tl::make_unexpected(std::move(flushed.error()));
  }
  NPU_FAILPOINT("ckpt.after_run_fsync");
  if (placed == Placed::kFresh) return false;
  const std::string& old = placed == Placed::kExchanged ? temp : aside;
  if (auto removed = remove_entry(ops, run.fd.get(), old); !removed) {
    warnings->push_back({run.run,
                         step,
                         {},
                         "the replaced checkpoint stays on disk until the next "
                         "sweep: " +
                             removed.error().message});
  }
  return true;
}

namespace {

// A small file of the run directory, replaced as a whole.
Result<void> write_pointer(FileOps& ops, const RunDir& run, const char* name,
                           const std::string& text) {
  const int dir = run.fd.get();
  const std::string temp = temp_name(name, ops.nonce());
  const std::string what = fmt::format("{} of run '{}'", name, run.run);
  const auto write = [&]() -> Result<void> {
    NPU_TRY(const UniqueFd fd, open_file(ops, dir, temp, O_WRONLY | O_CREAT | O_EXCL, 0600, what));
    NPU_TRY_VOID(write_bytes(ops, fd.get(), std::as_bytes(std::span(text)), what));
    NPU_TRY_VOID(sync(ops, fd.get(), what));
    NPU_FAILPOINT("ckpt.pointer_written");  // BEST if there is one, then LATEST
    return rename_entry(ops, dir, temp, name, 0);
  };
  if (auto written = write(); !written) {
    static_cast<void>(remove_entry(ops, dir, temp));
    return written;
  }
  return sync(ops, dir, fmt::format("run '{}'", run.run));
}

constexpr uint64_t kMaxPointerBytes = 64;

Result<std::string> read_pointer(FileOps& ops, const RunDir& run, const char* name) {
  const std::string what = fmt::format("{} of run '{}'", name, run.run);
  NPU_TRY(const UniqueFd fd, open_file(ops, run.fd.get(), name, O_RDONLY, 0, what));
  NPU_TRY(const uint64_t size, regular_size(ops, fd.get(), what));
  std::string text(std::min(size, kMaxPointerBytes), '\0');
  NPU_TRY_VOID(read_bytes(ops, fd.get(), std::as_writable_bytes(std::span(text)), 0, what));
  return text;
}

}  // namespace

Result<void> write_latest(FileOps& ops, const RunDir& run, uint64_t step) {
  return write_pointer(ops, run, kLatestFile, step_name(step) + "\n");
}

Result<void> write_best(FileOps& ops, const RunDir& run, uint64_t step, uint64_t sequence) {
  return write_pointer(ops, run, kBestFile, fmt::format("{} {}\n", step_name(step), sequence));
}

Result<std::optional<uint64_t>> best_step(FileOps& ops, const RunDir& run,
                                          std::span<const ScannedStep> steps) {
  std::optional<uint64_t> best;
  const auto text = read_pointer(ops, run, kBestFile);
  if (!text && text.error().code == Code::kNotFound) return best;
  // Not "there is none": rotation would remove it.
  if (!text) return tl::make_unexpected(text.error());
  for (const ScannedStep& scanned : steps) {
    const std::string name = step_name(scanned.step) + " ";
    // Without its manifest it may still be the one: rotation spares it, opening it says why not.
    const bool same = scanned.manifest
                          ? *text == fmt::format("{}{}\n", name, scanned.manifest->sequence)
                          : text->starts_with(name);
    if (same) best = scanned.step;
  }
  return best;
}

Result<std::vector<uint64_t>> rotate(FileOps& ops, const RunDir& run,
                                     const RotateOptions& options) {
  NPU_TRY(const auto steps, scan_run(ops, run));
  NPU_TRY(const auto best, best_step(ops, run, steps));
  std::vector<uint64_t> removed;
  std::vector<std::string> doomed;
  uint32_t kept = 1;  // the one just committed
  for (const auto& scanned : steps) {
    if (scanned.step == options.committed_step) continue;
    const bool newer_schema =
        !scanned.manifest && scanned.manifest.error().code == Code::kUnimplemented;
    if (newer_schema || scanned.step == best ||
        std::ranges::find(options.protect_steps, scanned.step) != options.protect_steps.end()) {
      continue;
    }
    if (kept < options.keep) {
      ++kept;
      continue;
    }
    // Renamed first and deleted later, so that no half-deleted step-N is ever seen.
    const std::string temp = temp_name(step_name(scanned.step), ops.nonce());
    NPU_TRY_VOID(rename_entry(ops, run.fd.get(), step_name(scanned.step), temp, 0));
    doomed.push_back(temp);
    removed.push_back(scanned.step);
    NPU_FAILPOINT("ckpt.rotation_renamed");
  }
  if (doomed.empty()) return removed;
  NPU_TRY_VOID(sync(ops, run.fd.get(), fmt::format("run '{}'", run.run)));
  for (const auto& temp : doomed) NPU_TRY_VOID(remove_entry(ops, run.fd.get(), temp));
  return removed;
}

Result<SweepReport> sweep_run(FileOps& ops, const RunDir& run) {
  const int dir = run.fd.get();
  SweepReport report;
  NPU_TRY(const auto names, list_names(ops, dir, fmt::format("run '{}'", run.run)));
  std::vector<std::string> doomed;
  for (const auto& name : names) {
    if (is_temp_name(name)) doomed.push_back(name);
    const auto base = parse_aside_name(name);
    if (!base) continue;
    if (exists(ops, run, *base)) {
      doomed.push_back(name);
    } else {
      NPU_TRY_VOID(rename_entry(ops, dir, name, *base, 0));
      ++report.restored;
    }
  }
  if (doomed.empty() && report.restored == 0) return report;
  // The writer may have died between its rename and its flush: what it published must be durable
  // before the copy that it replaced goes away.
  NPU_TRY_VOID(sync(ops, dir, fmt::format("run '{}'", run.run)));
  for (const auto& name : doomed) {
    if (auto removed = remove_entry(ops, dir, name); !removed) {
      report.warnings.push_back({run.run, 0, {}, removed.error().message});
    } else {
      ++report.removed;
    }
  }
  return report;
}

}  // namespace npu::daemon
