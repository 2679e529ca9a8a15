// The subcommand of `npu bench` that times the loader.
#pragma once

#include "client/cli/command.hpp"

namespace npu::cli {

/// Adds `data` to `bench`; sets `chosen` when it was the one named.
void add_bench_data(CLI::App& bench, Action& chosen);

}  // namespace npu::cli
