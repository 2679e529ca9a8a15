// Divides a communicator: members of one colour form a new one, ordered by key, then by rank.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/collectives/group.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

struct SplitResult {
  std::array<shm::SplitReply, shm::kMaxDevices> replies{};  // by member
  uint32_t wanted = 0;                                      // communicators asked for
};

/// The head of `group` is a complete split. False if not all new communicators find room; none is
/// created then. Matches MPI_Comm_split and torch.distributed.new_group's ordering by rank. Cost:
/// allocates the new communicators: 30 KB each, and a ring's scratch of 1 MiB that is not touched
/// before its first ring.
[[nodiscard]] bool split_group(const Group& group, GroupTable& groups,
                               SplitResult& result) noexcept;

}  // namespace npu::daemon
