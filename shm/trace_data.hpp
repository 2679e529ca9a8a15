// The flight recorder of a run: its last collectives with who arrived when, what ran and how it
// ended. Written by the engine's coordinator alone, mapped read-only by whoever may look
// (F_SEAL_FUTURE_WRITE).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shm/layout_data.hpp"

namespace npu::shm {

inline constexpr uint32_t kTraceSlots = 4096;  // records a run keeps
inline constexpr uint8_t kTraceNone = 0xff;    // dtype or reduce op: the operation has none

enum class TraceState : uint8_t {
  kWaiting = 1,  // not all members have arrived
  kRunning = 2,
  kDone = 3,
  kFailed = 4,  // refused, or the run was aborted: code and culprit say why
};

/// One operation. Every rank in it is a rank of the run, also for a smaller communicator. Times are
/// CLOCK_MONOTONIC, 0 = has not happened.
struct TraceRecord {
  uint64_t sequence = 0;  // of the communicator
  uint64_t count = 0;     // elements, as the members asked
  uint64_t bytes = 0;     // moved, over all ranks
  uint64_t arrival_ns[kMaxDevices] = {};
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t communicator = 0;
  uint32_t members = 0;       // bit r: rank r takes part
  int32_t root_or_peer = -1;  // -1: the operation has none
  int32_t culprit = -1;       // rank that caused the failure, -1 if none
  uint8_t op = 0;             // Op; kNone if a member asked for something that does not exist
  uint8_t dtype = kTraceNone;
  uint8_t reduce_op = kTraceNone;
  uint8_t algorithm = 0;  // Algorithm that ran; kAuto before it was chosen
  uint8_t state = static_cast<uint8_t>(TraceState::kWaiting);
  uint8_t code = 0;  // npu::Code of a failure, else 0
  uint8_t reserved[2] = {};
};
static_assert(std::is_standard_layout_v<TraceRecord> && std::is_trivially_copyable_v<TraceRecord>);
static_assert(sizeof(TraceRecord) == 128 && offsetof(TraceRecord, op) == 120);

inline constexpr size_t kTraceWords = sizeof(TraceRecord) / sizeof(uint64_t);

/// A record and its seqlock. `version` is odd while the writer is at it. The record is kept as
/// words, because a reader looks while it is written and both must do so atomically.
struct alignas(64) TraceSlot {
  std::atomic<uint32_t> version;
  uint32_t reserved;
  std::atomic<uint64_t> stamp;  // index + 1 of the record that is here, 0 = none
  std::atomic<uint64_t> words[kTraceWords];
};
static_assert(sizeof(TraceSlot) == 192);

/// Record i lives in slot i % kTraceSlots.
struct TraceRing {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    std::atomic<uint64_t> opened;  // records begun since the run started; release, pairs with
                                   // read_trace
  } count;
  TraceSlot slots[kTraceSlots];
};
static_assert(std::is_standard_layout_v<TraceRing>);
static_assert(sizeof(TraceRing) == 2 * kLineBytes + kTraceSlots * sizeof(TraceSlot));

}  // namespace npu::shm
