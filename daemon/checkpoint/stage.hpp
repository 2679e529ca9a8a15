// From a snapshot to a complete, flushed checkpoint directory that nobody can see yet.
#pragma once

#include "daemon/checkpoint/file_ops.hpp"
#include "daemon/checkpoint/snapshot.hpp"
#include "shm/base/error.hpp"
#include "shm/format/manifest.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::daemon {

/// A snapshot whose descriptions have been checked, with the layout of both tensor files.
struct StagePlan {
  SafetensorsPlan model;
  SafetensorsPlan optimizer;
};

/// Names, shapes, source sizes, keep. Errors: invalid_argument naming the tensor and both sizes.
[[nodiscard]] Result<StagePlan> plan_snapshot(const Snapshot& snapshot);

/// Writes and flushes all files and the manifest into the empty directory `dir`, then flushes
/// `dir`. Errors: data_loss "torn snapshot: ..." when a tensor's bytes are not the declared ones;
/// I/O errors.
[[nodiscard]] Result<Manifest> write_checkpoint(FileOps& ops, int dir, const Snapshot& snapshot,
                                                const StagePlan& plan, uint64_t sequence);

}  // namespace npu::daemon
