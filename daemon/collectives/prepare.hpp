// Turns what the members of a communicator ask for into an operation that engine threads can
// execute: pointers into their arenas, slices, kernel.
#pragma once

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/cost_model.hpp"
#include "daemon/collectives/group.hpp"
#include "daemon/collectives/pair_matcher.hpp"
#include "daemon/collectives/run_memory.hpp"

namespace npu::daemon {

/// Fills `active` from the complete and validated head of `group`; `costs` decides what `auto` is.
void prepare_collective(Active& active, const Group& group, const RunMemory& memory,
                        const CostModel& costs) noexcept;

/// Fills `active` from a validated pair.
void prepare_pair(Active& active, const Pair& pair, const RunMemory& memory) noexcept;

}  // namespace npu::daemon
