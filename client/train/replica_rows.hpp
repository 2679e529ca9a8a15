// A digest of each part of a replica, in the arena: equal on all ranks or somebody's memory is
// damaged, and the row that differs names the tensor.
#pragma once

#include <cstdint>
#include <span>

#include "client/train/arena.hpp"
#include "client/train/snapshot.hpp"
#include "model/state_exporter.hpp"
#include "shm/messages.hpp"

namespace npu::client {

/// Parameters, momentum, batch-norm buffers and the average (if there is one), in the layout that
/// is computed with: comparable between the ranks of one run only. Thread: one at a time.
class ReplicaRows {
 public:
  struct Parts {
    bool buffers = true;  // false: each rank may have its own
    bool average = false;
  };

  [[nodiscard]] static uint64_t bytes(const model::Network& network, Parts parts);
  [[nodiscard]] static Result<ReplicaRows> place(const model::Network& network,
                                                 ArenaAllocator& arena, Parts parts);

  /// Hashes `source` and tells `commit` where the rows are and what they come to; one that only
  /// checks leaves the buffers out, which ranks bring together at checkpoints alone. Cost: every
  /// byte is read once.
  void fill(const model::StateExporter& exporter, std::span<const model::StateEntry> entries,
            const SnapshotSource& source, shm::CheckpointCommit& commit);

 private:
  std::span<shm::ReplicaRow> rows_;
  uint64_t offset_ = 0;
  Parts parts_;
};

}  // namespace npu::client
