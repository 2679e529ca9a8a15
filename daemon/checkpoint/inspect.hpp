// Reads checkpoints back: manifests for a listing, every byte for a verification.
// Everything read is untrusted until its digest holds.
#pragma once

#include <string>
#include <vector>

#include "daemon/checkpoint/file_ops.hpp"
#include "daemon/checkpoint/store.hpp"
#include "shm/base/error.hpp"
#include "shm/format/manifest.hpp"

namespace npu::daemon {

/// Which run directory, and how to name it.
struct RunDir {
  UniqueFd fd;
  std::string run;
  std::string path;
};

/// One step-N directory as a scan sees it.
struct ScannedStep {
  uint64_t step = 0;
  Result<Manifest> manifest;  // the manifest, or why it does not hold
};

/// All step-N directories, newest commit first; those without a valid manifest last, by step.
[[nodiscard]] Result<std::vector<ScannedStep>> scan_run(FileOps& ops, const RunDir& run);

/// Opens what the manifest lists, and the manifest, after comparing sizes; contents are not read.
/// Errors: not_found (no such step); data_loss; unimplemented (newer schema).
[[nodiscard]] Result<OpenCheckpoint> open_files(FileOps& ops, const RunDir& run, uint64_t step);

/// A failed verification: `tensor` is the first bad one, if the damage is inside one.
struct Damage {
  std::string tensor;
  Error error;
};

/// Reads every byte of the files that the manifest lists; `name` names the checkpoint in messages.
[[nodiscard]] tl::expected<void, Damage> verify_files(FileOps& ops,
                                                      const OpenCheckpoint& checkpoint,
                                                      const std::string& name);

/// open_files(), then reads every byte through the descriptors that it returns.
[[nodiscard]] tl::expected<OpenCheckpoint, Damage> open_verified(FileOps& ops, const RunDir& run,
                                                                 uint64_t step);

}  // namespace npu::daemon
