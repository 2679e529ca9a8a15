// The submission ring: where a rank asks for collectives. The rank writes every byte of this page
// and is not trusted; the daemon copies one entry, validates the copy and uses the copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/layout_data.hpp"
#include "shm/progress_data.hpp"

namespace npu::shm {

inline constexpr uint32_t kQueueDepth = 256;  // entries outstanding per device
inline constexpr uint32_t kInlineBytes = 40;  // payload that travels in the entry itself
inline constexpr uint32_t kMaxStreams = 16;   // ordered queues of one rank

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
  kAllGatherV = 10,      // as all-gather, part r of recv_counts[r] elements at recv_displs[r]
  kReduceScatterV = 11,  // as reduce-scatter, part r of send_counts[r] elements at send_displs[r]
  kAllToAllV = 12,       // counts and displacements of its own for every pair of ranks
  kSend = 13,            // count elements to rank `root`, which must post a matching kRecv
  kRecv = 14,            // count elements from rank `root`
  kSplit = 15,           // inline SplitRequest -> inline SplitReply: a new communicator
  kDestroy = 16,         // the communicator ends when every member has asked for it
};
inline constexpr uint8_t kOpCount = 17;

[[nodiscard]] constexpr bool op_reduces(Op op) noexcept {
  return op == Op::kAllReduce || op == Op::kReduce || op == Op::kReduceScatter ||
         op == Op::kReduceScatterV;
}
[[nodiscard]] constexpr bool op_is_pairwise(Op op) noexcept {
  return op == Op::kSend || op == Op::kRecv;
}
/// True if counts and displacements travel in SubmitPage::vectors.
[[nodiscard]] constexpr bool op_has_vectors(Op op) noexcept {
  return op == Op::kAllGatherV || op == Op::kReduceScatterV || op == Op::kAllToAllV;
}
/// True if the operation moves no elements of the ranks' arenas.
[[nodiscard]] constexpr bool op_moves_nothing(Op op) noexcept {
  return op == Op::kBarrier || op == Op::kSplit || op == Op::kDestroy;
}
[[nodiscard]] constexpr bool op_has_root(Op op) noexcept {
  return op == Op::kBroadcast || op == Op::kReduce || op == Op::kScatter || op == Op::kGather;
}
/// "all-reduce", "reduce-scatter", ...
[[nodiscard]] const char* op_name(Op op) noexcept;

enum class Algorithm : uint8_t { kAuto = 0, kRing = 1, kDirect = 2 };
inline constexpr uint8_t kAlgorithmCount = 3;

/// Descriptor flags.
inline constexpr uint32_t kFlagInline = 1;      // payload in inline_payload, no arena offsets
inline constexpr uint32_t kFlagSumSquares = 2;  // completion carries the result's sum of squares
inline constexpr uint32_t kFlagStrict = 4;      // fp16/bf16 sum and mean: order-independent bits
inline constexpr uint32_t kFlagJoined = 8;      // starts together with the next entry (a batch)
inline constexpr uint32_t kFlagMask = 15;

/// One request. Ticket i lives in entry i % kQueueDepth and is published by stamp = i + 1. The k-th
/// entry of a rank for a communicator, in ticket order, is that rank's part of its operation k.
struct alignas(kLineBytes) Descriptor {
  std::atomic<uint64_t>
      stamp;  // seq_cst by the rank; pairs with the engine's scan before it sleeps
  uint64_t generation;
  uint64_t count;        // elements
  uint64_t send_offset;  // bytes from the arena's start
  uint64_t recv_offset;
  double scale;           // premulsum
  uint32_t communicator;  // 0 = world
  uint32_t timeout_ms;    // from the first arrival; 0 = never
  uint32_t root;          // rank in the communicator; the peer of send and receive
  uint32_t flags;
  uint8_t op;         // Op
  uint8_t dtype;      // DType
  uint8_t reduce_op;  // ReduceOp
  uint8_t algorithm;  // Algorithm: a wish, not part of the match
  uint8_t stream;     // this rank's operations of one stream run one after the other
  uint8_t reserved[3];
  std::byte inline_payload[kInlineBytes];
  uint8_t reserved2[8];
};
static_assert(sizeof(Descriptor) == kLineBytes);

/// Elements, by rank of the communicator; belongs to the entry of the same index.
struct alignas(kLineBytes) VectorArgs {
  uint64_t send_counts[kMaxDevices];
  uint64_t send_displs[kMaxDevices];
  uint64_t recv_counts[kMaxDevices];
  uint64_t recv_displs[kMaxDevices];
};
static_assert(sizeof(VectorArgs) == 2 * kLineBytes);

struct SplitRequest {
  int32_t color;  // ranks of one colour form a communicator; negative: none
  int32_t key;    // order within it, then the old rank
};

struct SplitReply {
  uint32_t communicator;  // kNoCommunicator for a negative colour
  uint32_t rank, size;
  uint8_t members[kMaxDevices];  // world rank of each member
};
inline constexpr uint32_t kNoCommunicator = UINT32_MAX;
static_assert(sizeof(SplitReply) <= kInlineBytes && sizeof(SplitRequest) <= kInlineBytes);

struct SubmitPage {
  SegmentHeader header;
  struct alignas(kLineBytes) {
    std::atomic<uint32_t> waiting;   // > 0 while a thread of the rank sleeps on the board; a hint
    std::atomic<uint64_t> progress;  // training steps done; advisory
    std::atomic<uint64_t> staged_copies;  // buffers outside the arena that had to be copied
  } rank;
  TrainingProgress progress;  // of rank 0; advisory
  Descriptor entries[kQueueDepth];
  VectorArgs vectors[kQueueDepth];
};
static_assert(std::is_standard_layout_v<SubmitPage>);
static_assert(sizeof(SubmitPage) == kLineBytes * (4 + 3 * kQueueDepth));

}  // namespace npu::shm
