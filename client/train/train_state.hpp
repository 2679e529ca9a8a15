// Where a run is between two steps: everything beside the tensors that a resumed run needs to go on
// with the same bits. Kept in a checkpoint as state.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/data/class_table.hpp"
#include "config/load.hpp"
#include "model/grad_scaler.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

/// Sums over the samples of the epoch so far, over all ranks.
struct EpochSums {
  double loss = 0;
  double top1 = 0, top5 = 0;
  int64_t samples = 0;
};

struct TrainState {
  int next_epoch = 0;         // epoch that the next step belongs to
  int64_t step_in_epoch = 0;  // steps of it that are done
  int64_t global_step = 0;    // steps that were made, skipped ones too
  EpochSums sums;
  double best_acc1 = 0;
  int best_epoch = -1;
  double last_acc1 = 0;
  int64_t skipped_steps = 0;
  std::optional<model::GradScalerState> scaler;  // in use with precision.amp, else kept as it was
};

/// What a checkpoint says about the job that wrote it; resume_policy.hpp compares it with another.
struct CheckpointIdentity {
  std::string arch;
  int num_classes = 0;
  int world = 0;
  int global_batch = 0;
  uint64_t seed = 0;
  bool amp = false;
  data::ClassTable classes = {};  // empty: not known
  std::string class_hash = {};    // of the whole table; a very long one is kept as its hash only
  std::optional<int64_t> start_epoch = {};     // train.start_epoch
  std::vector<config::Setting> settings = {};  // those that decide what is trained; schema 1: none
};

/// Of a table of this many bytes as JSON, the names go into state.json.
inline constexpr size_t kMaxClassTableBytes = 400'000;

[[nodiscard]] CheckpointIdentity identity_of(const config::Job& job,
                                             const data::ClassTable& classes);

/// state.json, schema 2: one object, deterministic text.
[[nodiscard]] std::string state_to_json(const TrainState& state,
                                        const CheckpointIdentity& identity);

struct ParsedState {
  TrainState state;
  CheckpointIdentity identity;
};
/// Reads schema 1 and 2. Errors: data_loss naming what is missing, of the wrong type or out of
/// range; unimplemented for a later schema.
[[nodiscard]] Result<ParsedState> state_from_json(std::string_view text);

/// Labels mean the same only with the same table. Errors: failed_precondition, exit 65, listing the
/// difference. A side that knows no table is not compared.
[[nodiscard]] Result<void> check_class_table(const CheckpointIdentity& file,
                                             const CheckpointIdentity& job,
                                             const std::string& path);

}  // namespace npu::client
