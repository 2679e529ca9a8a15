// A network's state as files see it: plain layout, torchvision's names. Staged in the arena for the
// daemon to write, and read back from a checkpoint's descriptors.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "client/api/admin.hpp"
#include "client/train/arena.hpp"
#include "client/train/train_state.hpp"
#include "client/train/weight_average.hpp"
#include "model/network.hpp"
#include "model/state_exporter.hpp"
#include "shm/messages.hpp"

namespace npu::client {

/// XXH3-64 over name, shape and plain fp32 bytes of every parameter and buffer in state_dict order
/// (counters as int64): equal bits give equal digests, whatever layout the processor computes in.
/// `scratch` holds the largest entry.
[[nodiscard]] uint64_t weights_digest(const model::Network& network, std::span<float> scratch);

/// What a snapshot is taken of: memory that nobody writes until it is taken. The weights are the
/// network's own, which the next update changes; what forward passes change is a copy.
struct SnapshotSource {
  std::span<const float> parameters, momentum;                 // ordered as parameters_flat()
  std::span<const float> buffers;                              // as bn_buffers()
  std::span<const int64_t> batches_tracked;                    // by index of the entry
  std::span<const float> average_parameters, average_buffers;  // empty: no average
};

/// One staging area of rank 0. Thread: one at a time; reused only after the commit that used it is
/// over.
class SnapshotStage {
 public:
  /// Room for state.json: 5 KiB and the names of the classes.
  static constexpr uint64_t kStateBytes = 512 * 1024;

  /// Arena bytes that place() takes.
  [[nodiscard]] static uint64_t bytes(const model::Network& network, bool with_average);
  [[nodiscard]] static Result<SnapshotStage> place(const model::Network& network,
                                                   ArenaAllocator& arena, bool with_average);

  /// Takes the text of state.json, at most kStateBytes.
  void set_state(const std::string& json);

  /// Copies the state into plain layout; the average goes beside the momentum, as `ema.<name>`.
  /// `source` may change afterwards. Cost: each byte is read and written once.
  void copy(model::StateExporter& exporter, std::span<const model::StateEntry> entries,
            const SnapshotSource& source);
  /// Describes what was copied, with a digest a tensor: all of the message but step, keep and what
  /// is about replicas. Cost: each byte is hashed once, parameters and buffers twice.
  [[nodiscard]] shm::CheckpointCommit describe(std::span<const model::StateEntry> entries);

 private:
  std::span<float> data_;
  std::span<shm::SnapshotTensor> table_;
  std::span<char> state_;
  uint64_t data_offset_ = 0, table_offset_ = 0, state_offset_ = 0;
  uint64_t state_bytes_ = 0;
  size_t rows_ = 0;  // of the table, in use
};

/// What state.json says. Errors: as state_from_json.
[[nodiscard]] Result<ParsedState> read_state(const CheckpointFiles& files);

/// Loads parameters, buffers, momentum and the average (may be null), which starts at the weights
/// when the checkpoint has none. Errors: failed_precondition naming the tensor and both shapes;
/// data_loss for missing or unexpected tensors.
[[nodiscard]] Result<void> restore(model::Network& network, WeightAverage* average,
                                   CheckpointFiles files, std::span<float> scratch);

/// Elements of the largest state entry.
[[nodiscard]] uint64_t largest_entry(const model::Network& network);

}  // namespace npu::client
