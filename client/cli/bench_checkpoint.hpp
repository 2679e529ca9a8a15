// The subcommand of `npu bench` that times checkpoints.
#pragma once

#include "client/cli/command.hpp"

namespace npu::cli {

/// Adds `checkpoint` to `bench`; sets `chosen` when it was the one named.
void add_bench_checkpoint(CLI::App& bench, Action& chosen);

}  // namespace npu::cli
