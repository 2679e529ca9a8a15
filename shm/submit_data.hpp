// The submission ring: where a rank asks for collectives. The rank writes every byte of this page
// and is not trusted; the daemon copies one entry, validates the copy and uses the copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/layout_data.hpp"

namespace npu::shm {

inline constexpr uint32_t kQueueDepth = 256;  // entries outstanding per device
inline constexpr uint32_t kInlineBytes = 40;  // payload that travels in the entry itself

enum class Op : uint8_t {
  kNone = 0,
  kAllReduce = 1,
  kBroadcast = 2,
  kBarrier = 3,
  kReduce = 4,     // count elements of every rank -> root
  kAllGather = 5,  // count of each rank -> world * count on every rank, in rank order
  kReduceScatter =
      6,          // world * count of every rank -> the folded part of count elements of each rank
  kScatter = 7,   // world * count of root -> count on each rank
  kGather = 8,    // count of each rank -> world * count on root
  kAllToAll = 9,  // part j of rank i -> part i of rank j, count elements a part
};
inline constexpr uint8_t kOpCount = 10;

[[nodiscard]] constexpr bool op_reduces(Op op) noexcept {
  return op == Op::kAllReduce || op == Op::kReduce || op == Op::kReduceScatter;
}
[[nodiscard]] constexpr bool op_has_root(Op op) noexcept {
  return op == Op::kBroadcast || op == Op::kReduce || op == Op::kScatter || op == Op::kGather;
}
/// "all-reduce", "reduce-scatter", ...
[[nodiscard]] const char* op_name(Op op) noexcept;

enum class Algorithm : uint8_t { kAuto = 0, kRing = 1, kDirect = 2 };
inline constexpr uint8_t kAlgorithmCount = 3;

/// Descriptor flags.
inline constexpr uint32_t kFlagInline = 1;  // payload in inline_payload, no arena offsets
inline constexpr uint32_t kFlagSumSquares =
    2;  // completion carries the sum of squares of the result
inline constexpr uint32_t kFlagMask = 3;

/// One request. Ticket i lives in entry i % kQueueDepth and is published by stamp = i + 1.
struct alignas(kLineBytes) Descriptor {
  std::atomic<uint64_t>
      stamp;  // seq_cst by the rank; pairs with the engine's scan before it sleeps
  uint64_t generation;
  uint64_t sequence;     // per communicator, from 0, equal on all ranks for one collective
  uint64_t count;        // elements
  uint64_t send_offset;  // bytes from the arena's start
  uint64_t recv_offset;
  double scale;           // premulsum
  uint32_t communicator;  // 0 = world
  uint32_t timeout_ms;    // from the first arrival; 0 = never
  uint32_t root;          // rank in the communicator
  uint32_t flags;
  uint8_t op;         // Op
  uint8_t dtype;      // DType
  uint8_t reduce_op;  // ReduceOp
  uint8_t algorithm;  // Algorithm: a wish, not part of the match
  uint8_t reserved[4];
  std::byte inline_payload[kInlineBytes];
};
static_assert(sizeof(Descriptor) == kLineBytes);

struct SubmitPage {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> value;  // futex word: bumped by the rank when the engine sleeps
  } doorbell;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> waiting;   // > 0 while a thread of the rank sleeps on the board; a hint
    std::atomic<uint64_t> progress;  // training steps done; advisory
  } rank;
  Descriptor entries[kQueueDepth];
};
static_assert(std::is_standard_layout_v<SubmitPage>);
static_assert(sizeof(SubmitPage) == kLineBytes * (3 + kQueueDepth));

}  // namespace npu::shm
