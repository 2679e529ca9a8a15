// The subcommand of `npu bench` that times a training step.
#pragma once

#include "client/cli/command.hpp"

namespace npu::cli {

/// Adds `step` to `bench`; sets `chosen` when it was the one named.
void add_bench_step(CLI::App& bench, Action& chosen);

}  // namespace npu::cli
