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
#include "shm/messages.hpp"

namespace npu::client {

/// XXH3-64 over name, shape and plain fp32 bytes of every parameter and buffer in state_dict order
/// (counters as int64): equal bits give equal digests, whatever layout the processor computes in.
/// `scratch` holds the largest entry.
[[nodiscard]] uint64_t weights_digest(const model::Network& network, std::span<float> scratch);

/// Same purpose in the compute layout, with momentum and the average (may be null): cheap,
/// comparable between the ranks of one run only. `with_buffers`: batch norm's are equal on them.
[[nodiscard]] uint64_t replica_digest(model::Network& network, const WeightAverage* average,
                                      bool with_buffers);

/// One staging area of rank 0. Thread: one; reused only after the commit that used it is over.
class SnapshotStage {
 public:
  /// Room for state.json: 5 KiB and the names of the classes.
  static constexpr uint64_t kStateBytes = 512 * 1024;

  /// Arena bytes that place() takes.
  [[nodiscard]] static uint64_t bytes(const model::Network& network, bool with_average);
  [[nodiscard]] static Result<SnapshotStage> place(const model::Network& network,
                                                   ArenaAllocator& arena, bool with_average);

  /// Copies the state (state_json: at most kStateBytes) and describes it; the message is ready to
  /// be sent. The average (may be null) goes beside the momentum, as `ema.<name>`; it is exchanged
  /// with the network for that long.
  [[nodiscard]] shm::CheckpointCommit fill(model::Network& network, WeightAverage* average,
                                           const std::string& state_json, int64_t step,
                                           uint32_t keep);
  /// Digest of the last fill.
  [[nodiscard]] uint64_t digest() const noexcept { return digest_; }

 private:
  std::span<float> data_;
  std::span<shm::SnapshotTensor> table_;
  std::span<char> state_;
  uint64_t data_offset_ = 0, table_offset_ = 0, state_offset_ = 0;
  uint64_t digest_ = 0;
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
