// Hints that the members of a run give each other: how many operations each has submitted, so that
// only the last to arrive wakes the engine. Writable by every member; nothing here is believed: a
// wrong value costs its own run a wake too many, or one that is late by a wait slice.
#pragma once

#include <cstdint>

#include "shm/layout_data.hpp"

namespace npu::shm {

/// Communicators of one run that exist at the same time, the world included. An id is its slot plus
/// a multiple of this, so that a slot's next user has another id.
inline constexpr uint32_t kMaxCommunicators = 64;

struct RunHints {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> value;  // futex word of the engine: bumped by the last to arrive
  } doorbell;
  struct alignas(kLineBytes) {
    std::atomic<uint64_t> submitted[kMaxDevices];  // by rank of the communicator; its own writes it
  } arrivals[kMaxCommunicators];
};
static_assert(std::is_standard_layout_v<RunHints>);
static_assert(sizeof(RunHints) == kLineBytes * (2 + kMaxCommunicators));

}  // namespace npu::shm
