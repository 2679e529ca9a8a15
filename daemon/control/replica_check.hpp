// Whether the replicas of a run are equal, and if not which rank's is the odd one and where. Pure
// functions on what the ranks reported; what lies in their arenas is untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "daemon/control/run_table.hpp"

namespace npu::daemon {

struct Divergence {
  uint32_t rank = 0;    // the one that most others differ from
  std::string message;  // one sentence: what differs, whose it is, what to do
};

/// Compares the digests of all ranks. The majority is right; where there is none (two ranks, say)
/// the lowest rank's is taken for it, and the message says that nobody can tell. The part that
/// differs is named by the rows in the arenas, which are copied once and only serve the message.
/// Cost: nothing but N comparisons while all are equal.
[[nodiscard]] std::optional<Divergence> compare_replicas(
    const CommitGathering& gathering, uint32_t world,
    const std::array<std::span<const std::byte>, shm::kMaxDevices>& arenas);

}  // namespace npu::daemon
