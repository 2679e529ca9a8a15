// Cyclic waits: operation A waits in some rank's stream behind B, and B, by way of other ranks,
// behind A. Nobody is late, and nothing will ever happen: an error, not a deadline.
#pragma once

#include <string>
#include <vector>

#include "daemon/collectives/group.hpp"
#include "daemon/collectives/pair_matcher.hpp"
#include "daemon/collectives/stream_queues.hpp"

namespace npu::daemon {

/// The operations of one cycle. All their ranks have arrived.
struct WaitCycle {
  std::vector<Group*> groups;  // their heads
  std::vector<Pair> pairs;
  std::string text;  // who waits behind what
  [[nodiscard]] bool empty() const noexcept { return groups.empty() && pairs.empty(); }
};

/// Looks for a cycle among the complete operations that their streams hold back. Cost: operations
/// times ranks; called when something is held back and nothing runs.
[[nodiscard]] WaitCycle find_wait_cycle(GroupTable& groups, PairMatcher& pairs,
                                        StreamQueues& queues);

}  // namespace npu::daemon
