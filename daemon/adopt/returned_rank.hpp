// What a rank hands back to a daemon that started again: the memory that it shared with the one
// before.
#pragma once

#include <cstdint>
#include <span>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/segment.hpp"

namespace npu::daemon {

/// Descriptors in the order in which they travel.
inline constexpr size_t kReturnedFds = 5;  // arena, submit page, old status page, hints, journal

struct ReturnedRank {
  shm::ReturnedSegment arena, submit, hints, journal;
  shm::Segment status;  // new, with what the old one said
};

/// Errors: permission_denied, data_loss (which descriptor is not what it should be, and why);
/// resource_exhausted. Cost: maps five segments, copies one status page.
[[nodiscard]] Result<ReturnedRank> take_back(std::span<const UniqueFd> fds,
                                             const shm::SegmentSpec& rank, uint64_t arena_bytes);

}  // namespace npu::daemon
