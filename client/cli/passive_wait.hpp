// A pool of compute threads that sleeps instead of spinning while it waits.
#pragma once

namespace npu::cli {

/// Starts the program again with OMP_WAIT_POLICY=passive unless the variable is set: libgomp reads
/// it when it is loaded, that is before main. `argv` is main's.
void wait_passively(char** argv);

}  // namespace npu::cli
