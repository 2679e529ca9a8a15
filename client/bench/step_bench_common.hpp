// What both ways of timing a step share.
#pragma once

#include <vector>

#include "client/bench/step_bench.hpp"
#include "model/network.hpp"

namespace npu::client {

/// Small: the loss on noise must stay finite for any number of steps.
inline constexpr float kBenchRate = 1e-3F;

[[nodiscard]] model::NetworkConfig network_config(const StepBenchOptions& options);

/// Rates and percentiles of the timed steps, at least one.
[[nodiscard]] Result<StepBenchResult> summarise(const StepBenchOptions& options,
                                                std::vector<double> step_ms);

}  // namespace npu::client
