// What a job says of itself: its events, filled from where the numbers are. Rank 0 only.
#pragma once

#include <optional>
#include <string>

#include "client/render/events.hpp"
#include "client/train/epoch.hpp"

namespace npu::client {

/// `data` describes the set; `from`: the checkpoint that it resumes; `state` is its position then.
[[nodiscard]] StartEvent start_event(Replica& replica, const std::string& data,
                                     int64_t steps_per_epoch,
                                     const std::optional<std::string>& from,
                                     const TrainState& state);

/// A validated epoch, or one that was only trained.
struct Validated {
  std::optional<ValResult> weights, average;
};

[[nodiscard]] EpochEvent epoch_event(int epoch, const EpochSums& sums, const EpochResult& trained,
                                     const Validated& validated, bool best);

/// `epoch` that the weights come from, -1 if from none.
[[nodiscard]] EvalEvent eval_event(int epoch, const ValResult& weights,
                                   const std::optional<ValResult>& average);

}  // namespace npu::client
