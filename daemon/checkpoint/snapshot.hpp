// What a run hands over to be made durable: descriptions the daemon has checked, and bytes it does
// not trust. Plain data; nothing here owns the staged memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shm/base/dtype.hpp"
#include "shm/format/safetensors.hpp"

namespace npu::daemon {

/// One staged tensor. `source` may be memory that a client still writes to: the store reads each
/// byte once. The mapping must not be able to shrink under the daemon (sealed memfd).
struct SnapshotTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  TensorShape shape;
  std::span<const std::byte> source;  // elements x width bytes, little endian, row-major
  uint64_t xxh3_64 = 0;               // what the run declared when the snapshot became ready
};

struct Snapshot {
  uid_t uid = 0;
  std::string run;
  uint64_t step = 0;
  bool best = false;                    // of the run's best epoch: BEST will name it
  uint32_t keep = 1;                    // checkpoints to keep, this one included; at least 1
  std::vector<uint64_t> protect_steps;  // never rotated out, beyond `keep` (the best one, say)
  std::vector<SnapshotTensor> model;
  std::vector<SnapshotTensor> optimizer;
  TensorMetadata model_metadata = {{"format", "pt"}};  // transformers refuses a file without it
  std::string state_json;                              // opaque to the daemon
  uint64_t weights_digest = 0;
  /// Of all files of this uid, this snapshot beside what is there; 0: no limit.
  uint64_t user_limit_bytes = 0;

  [[nodiscard]] uint64_t tensor_bytes() const noexcept;
};

}  // namespace npu::daemon
