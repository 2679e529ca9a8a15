// Words for submissions, for the sentences of failures.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/collectives/stream_queues.hpp"

namespace npu::daemon {

/// "all-reduce seq 12 (fp32, sum, 65536 elements)"; "... on communicator 66" beyond the world.
[[nodiscard]] std::string describe(const Pending& pending);

}  // namespace npu::daemon
