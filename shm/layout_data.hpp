// What every shared segment begins with, and the hash by which two builds know that they agree on
// every structure that both sides touch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace npu::shm {

/// One writer's line. Fixed: the adjacent-line prefetcher pairs 64-byte lines, and the compiler's
/// own constant depends on tuning flags.
inline constexpr size_t kLineBytes = 128;

inline constexpr uint64_t kSegmentMagic = 0x31'30'67'65'73'75'70'6eULL;  // "npuseg01"
inline constexpr uint32_t kProtocolMajor = 1;
inline constexpr uint32_t kProtocolMinor = 0;

inline constexpr uint32_t kMaxDevices = 8;

enum class SegmentKind : uint32_t {
  kArena = 1,
  kSubmit = 2,
  kStatus = 3,
  kBoard = 4,
  kHints = 5,
  kTrace = 6,
  kJournal = 7,
};

/// First 128 bytes of every segment but an arena. An arena is raw bytes and has none: a
/// client may punch holes into it. Written by the daemon before the segment is handed out, magic
/// last; read-only afterwards.
struct alignas(kLineBytes) SegmentHeader {
  std::atomic<uint64_t> magic;  // release by the creator, acquire by who maps it
  uint64_t layout_hash;
  uint64_t size_bytes;
  uint64_t generation;
  uint32_t kind;
  uint32_t device;
  uint32_t rank;
  uint32_t world;
  uint8_t reserved[80];
};
static_assert(sizeof(SegmentHeader) == kLineBytes && std::is_standard_layout_v<SegmentHeader>);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

/// FNV-1a over sizes and offsets of every shared structure (layout.cpp). A golden test pins the
/// value.
[[nodiscard]] uint64_t layout_hash() noexcept;

}  // namespace npu::shm
