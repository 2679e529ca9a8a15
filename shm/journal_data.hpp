// The journal of a run: what a daemon that starts again has to know of its predecessor's last
// moments. Written by the engine, held by the daemon and by every member, mapped by the daemon
// alone; a member could write it, which hurts its own run. docs/design/019-daemon-restart.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/layout_data.hpp"
#include "shm/status_data.hpp"

namespace npu::shm {

/// Engine threads that may fold in place, each with a slice of scratch.
inline constexpr uint32_t kScratchSlots = 8;
inline constexpr uint64_t kScratchBytes = 64 * 1024;
/// No slice of a reduction is smaller, but for the last one of a part.
inline constexpr uint64_t kLeastSliceBytes = 16 * 1024;

/// How far a slice of an in-place reduction is. 1 to kScratchSlots: its result lies in scratch slot
/// mark - 1.
enum SliceMark : uint8_t {
  kSliceHeld = 64,     // and thread + 1: its group of elements is held in that thread's record
  kSliceOpen = 0,      // the inputs are whole
  kSliceAtLast = 254,  // ring: the result lies in the last rank's buffer
  kSliceDone = 255,    // the result lies in every rank's buffer
};

/// Where an engine thread is in the slice that it folds in place: kernels' FoldHold.
struct alignas(kLineBytes) HoldRecord {
  uint64_t progress;
  std::byte reserved[kLineBytes - 8];
  std::byte windows[768];
};

inline constexpr uint64_t kNoTicket = UINT64_MAX;

/// A completion that members are about to be told, all of them the same.
struct Verdict {
  std::atomic<uint32_t> state;  // 1: it holds; written last
  uint32_t rank_mask;           // whom it concerns, by rank of the world
  uint64_t tickets[kMaxDevices];
  uint64_t second_ticket;  // of the only rank, which sent to itself; else kNoTicket
  uint64_t sequence;
  double sum_squares;
  int32_t culprit;
  uint8_t code, found_inf, result_inf, algorithm;
  uint32_t has_payload;
  uint32_t text_bytes;
  std::byte inline_payload[kInlineBytes];
  char text[kErrorTextBytes];
};

struct RunJournal {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    uint64_t marks;                   // bytes of marks that follow this structure
    uint64_t sequence;                // of the world's next operation
    std::atomic<uint32_t> left_mask;  // ranks that detached in order
    std::atomic<uint32_t> split;      // 1: there were communicators beside the world
  } run;
  /// The reduction over the world that overwrites its inputs, if one is going on.
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> state;  // 1: it goes on; written last
    std::atomic<uint32_t> flags;  // Active::flags
    uint64_t slices;
    uint64_t slice_elements;
    uint64_t tickets[kMaxDevices];
  } reduction;
  alignas(kLineBytes) Verdict verdict;
  HoldRecord holds[kScratchSlots];  // by engine thread
};
static_assert(std::is_standard_layout_v<RunJournal>);

inline constexpr uint64_t kJournalPage = 4096;

/// Where the scratch begins: after the structure and the marks, on a page of its own.
[[nodiscard]] constexpr uint64_t scratch_offset(uint64_t marks) noexcept {
  return (sizeof(RunJournal) + marks + kJournalPage - 1) / kJournalPage * kJournalPage;
}
[[nodiscard]] constexpr uint64_t journal_bytes(uint64_t marks) noexcept {
  return scratch_offset(marks) + kScratchSlots * kScratchBytes;
}
/// One for each slice that an operation in an arena of that size can have.
[[nodiscard]] constexpr uint64_t journal_marks(uint64_t arena_bytes) noexcept {
  return arena_bytes / kLeastSliceBytes + 64;
}

}  // namespace npu::shm
