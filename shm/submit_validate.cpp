// What a submission may ask for: every field of a private copy is checked before the engine uses
// it. Nothing here reads shared memory.
#include <array>

#include "shm/base/dtype.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::shm {
namespace {

/// Bytes the operation reads at send_offset and writes at recv_offset on this rank; `part` is count
/// elements.
struct Extent {
  uint64_t send, recv;
};

Extent extent_of(const Submission& s, const SubmissionLimits& limits, uint64_t part) noexcept {
  const uint64_t all = part * limits.size;
  const bool root = s.root == limits.rank;
  switch (static_cast<Op>(s.op)) {
    case Op::kReduce:
      return {part, root ? part : 0};
    case Op::kAllGather:
      return {part, all};
    case Op::kReduceScatter:
      return {all, part};
    case Op::kScatter:
      return {root ? all : 0, part};
    case Op::kGather:
      return {part, root ? all : 0};
    case Op::kAllToAll:
      return {all, all};
    case Op::kSend:
      return {part, 0};
    case Op::kRecv:
      return {0, part};
    default:
      return {part, part};
  }
}

/// In place means: the smaller buffer is the rank's own part of the larger one, or both are the
/// same.
bool in_place(const Submission& s, const SubmissionLimits& limits, const Extent& e,
              uint64_t part) noexcept {
  if (static_cast<Op>(s.op) == Op::kAllToAll)
    return false;  // a part would be overwritten before it is read
  if (e.send == e.recv) return s.send_offset == s.recv_offset;
  if (e.send < e.recv) return s.send_offset == s.recv_offset + limits.rank * part;
  return s.recv_offset == s.send_offset + limits.rank * part;
}

/// True if [offset, offset + bytes) lies in the arena; safe against wrap-around.
bool in_arena(uint64_t offset, uint64_t bytes, uint64_t arena_bytes) noexcept {
  return bytes <= arena_bytes && offset <= arena_bytes - bytes;
}

bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) noexcept {
  if (a_bytes == 0 || b_bytes == 0) return false;
  return a < b ? b - a < a_bytes : a - b < b_bytes;
}

Fault validate_ranges(const Submission& s, const SubmissionLimits& limits,
                      uint64_t element) noexcept {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(s.count, element, &bytes)) return Fault::kCount;
  if ((s.flags & kFlagInline) != 0) {
    const Op op = static_cast<Op>(s.op);
    if (op != Op::kAllReduce && op != Op::kBroadcast && !op_is_pairwise(op)) return Fault::kFlags;
    return bytes <= kInlineBytes ? Fault::kNone : Fault::kCount;
  }
  if (bytes > limits.arena_bytes) return Fault::kRange;  // size * bytes cannot overflow below
  const Extent e = extent_of(s, limits, bytes);
  if (!in_arena(s.send_offset, e.send, limits.arena_bytes) ||
      !in_arena(s.recv_offset, e.recv, limits.arena_bytes)) {
    return Fault::kRange;
  }
  if (s.send_offset % element != 0 || s.recv_offset % element != 0) return Fault::kAlignment;
  const bool overlapping = overlap(s.send_offset, e.send, s.recv_offset, e.recv);
  if (overlapping && !in_place(s, limits, e, bytes)) return Fault::kOverlap;
  return Fault::kNone;
}

/// A run of bytes of the arena.
struct Range {
  uint64_t offset, bytes;
};

/// `count` elements at `displ` elements after `base`; kRange if they leave the arena.
Fault make_range(uint64_t base, uint64_t displ, uint64_t count, uint64_t element,
                 uint64_t arena_bytes, Range& out) noexcept {
  uint64_t at = 0;
  if (__builtin_mul_overflow(displ, element, &at) ||
      __builtin_mul_overflow(count, element, &out.bytes)) {
    return Fault::kCount;
  }
  if (out.bytes == 0) {
    out.offset = 0;
    return Fault::kNone;
  }
  if (__builtin_add_overflow(base, at, &out.offset)) return Fault::kRange;
  return in_arena(out.offset, out.bytes, arena_bytes) ? Fault::kNone : Fault::kRange;
}

/// The parts of one side, as the operation reads or writes them on this rank.
struct Parts {
  std::array<Range, kMaxDevices> range{};
  uint32_t n = 0;
};

Fault make_parts(uint64_t base, const uint64_t* counts, const uint64_t* displs, uint64_t element,
                 const SubmissionLimits& limits, Parts& out) noexcept {
  for (out.n = 0; out.n < limits.size; ++out.n) {
    const Fault fault = make_range(base, displs[out.n], counts[out.n], element, limits.arena_bytes,
                                   out.range[out.n]);
    if (fault != Fault::kNone) return fault;
  }
  return Fault::kNone;
}

/// Part `own` of `a` may be exactly a part of `b`; nothing else may meet.
bool any_overlap(const Parts& a, const Parts& b, uint32_t own) noexcept {
  for (uint32_t i = 0; i < a.n; ++i) {
    for (uint32_t j = 0; j < b.n; ++j) {
      const Range& x = a.range[i];
      const Range& y = b.range[j];
      if (!overlap(x.offset, x.bytes, y.offset, y.bytes)) continue;
      const bool same = x.offset == y.offset && x.bytes == y.bytes;
      if (!same || i != own) return true;
    }
  }
  return false;
}

bool self_overlap(const Parts& p) noexcept {
  for (uint32_t i = 0; i < p.n; ++i) {
    for (uint32_t j = i + 1; j < p.n; ++j) {
      if (overlap(p.range[i].offset, p.range[i].bytes, p.range[j].offset, p.range[j].bytes))
        return true;
    }
  }
  return false;
}

/// The v forms: every part in the arena, received parts apart from each other; the only overlap
/// allowed is a rank's own part, at exactly its place (all-gather-v, reduce-scatter-v).
Fault validate_vectors(const Submission& s, const VectorArgs& v, const SubmissionLimits& limits,
                       uint64_t element) noexcept {
  const Op op = static_cast<Op>(s.op);
  if ((s.flags & kFlagInline) != 0) return Fault::kFlags;
  if (s.send_offset % element != 0 || s.recv_offset % element != 0) return Fault::kAlignment;
  Parts send, recv;
  Fault fault = Fault::kNone;
  if (op == Op::kAllGatherV) {
    send.n = 1;
    fault = make_range(s.send_offset, 0, s.count, element, limits.arena_bytes, send.range[0]);
    if (s.count != v.recv_counts[limits.rank]) return Fault::kCount;
  } else {
    fault = make_parts(s.send_offset, v.send_counts, v.send_displs, element, limits, send);
  }
  if (fault != Fault::kNone) return fault;
  if (op == Op::kReduceScatterV) {
    recv.n = 1;
    fault = make_range(s.recv_offset, 0, s.count, element, limits.arena_bytes, recv.range[0]);
    if (s.count != v.send_counts[limits.rank]) return Fault::kCount;
  } else {
    fault = make_parts(s.recv_offset, v.recv_counts, v.recv_displs, element, limits, recv);
  }
  if (fault != Fault::kNone) return fault;
  const uint32_t own = op == Op::kAllToAllV ? kMaxDevices : limits.rank;
  if (self_overlap(recv)) return Fault::kOverlap;
  const bool bad =
      op == Op::kAllGatherV ? any_overlap(recv, send, own) : any_overlap(send, recv, own);
  return bad ? Fault::kOverlap : Fault::kNone;
}

}  // namespace

Fault validate(const Submission& s, const VectorArgs& v, const SubmissionLimits& limits) noexcept {
  if (s.generation != limits.generation) return Fault::kGeneration;
  if (s.op == 0 || s.op >= kOpCount) return Fault::kOp;
  if (s.algorithm >= kAlgorithmCount) return Fault::kAlgorithm;
  if (s.stream >= kMaxStreams) return Fault::kStream;
  if ((s.flags & ~kFlagMask) != 0) return Fault::kFlags;
  const Op op = static_cast<Op>(s.op);
  if (op_moves_nothing(op)) return Fault::kNone;
  const uint64_t element = dtype_size(static_cast<DType>(s.dtype));
  if (element == 0) return Fault::kDType;
  if (op_reduces(op) && s.reduce_op >= kReduceOpCount) return Fault::kReduceOp;
  if (op_has_root(op) && s.root >= limits.size) return Fault::kRoot;
  if (op_is_pairwise(op) && s.root >= limits.size) return Fault::kPeer;
  return op_has_vectors(op) ? validate_vectors(s, v, limits, element)
                            : validate_ranges(s, limits, element);
}

}  // namespace npu::shm
