// Which bytes of its arena an operation reads and writes on one rank, told a second time: from the
// descriptions of the operations in shm/submit_data.hpp, in integers that cannot wrap, without a
// look at the validator.
#pragma once

#include <vector>

#include "shm/base/dtype.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::fuzz {

using Wide = __int128;

/// Bytes [begin, end) of the arena.
struct Span {
  Wide begin, end;
};

struct Footprint {
  std::vector<Span> reads, writes;
};

inline void add(std::vector<Span>& spans, Wide begin, Wide bytes) {
  if (bytes > 0) spans.push_back({begin, begin + bytes});
}

/// Parts of a v form: counts and displacements are elements.
inline void add_parts(std::vector<Span>& spans, Wide base, const uint64_t* counts,
                      const uint64_t* displs, uint32_t n, Wide element) {
  for (uint32_t r = 0; r < n; ++r) add(spans, base + displs[r] * element, counts[r] * element);
}

inline Footprint footprint(const shm::Submission& s, const shm::VectorArgs& v,
                           const shm::SubmissionLimits& limits) {
  using shm::Op;
  Footprint f;
  if ((s.flags & shm::kFlagInline) != 0) return f;  // the entry carries the data
  const Wide element = dtype_size(static_cast<DType>(s.dtype));
  const Wide part = s.count * element;
  const Wide all = part * limits.size;
  const bool root = s.root == limits.rank;
  const Wide from = s.send_offset, to = s.recv_offset;
  switch (static_cast<Op>(s.op)) {
    case Op::kAllReduce:
      add(f.reads, from, part);
      add(f.writes, to, part);
      break;
    case Op::kBroadcast:
      if (root) add(f.reads, from, part);
      add(f.writes, to, part);
      break;
    case Op::kReduce:
      add(f.reads, from, part);
      if (root) add(f.writes, to, part);
      break;
    case Op::kAllGather:
      add(f.reads, from, part);
      add(f.writes, to, all);
      break;
    case Op::kReduceScatter:
      add(f.reads, from, all);
      add(f.writes, to, part);
      break;
    case Op::kScatter:
      if (root) add(f.reads, from, all);
      add(f.writes, to, part);
      break;
    case Op::kGather:
      add(f.reads, from, part);
      if (root) add(f.writes, to, all);
      break;
    case Op::kAllToAll:
      add(f.reads, from, all);
      add(f.writes, to, all);
      break;
    case Op::kAllGatherV:  // its own part is as long as its receive count says
      add(f.reads, from, v.recv_counts[limits.rank] * element);
      add_parts(f.writes, to, v.recv_counts, v.recv_displs, limits.size, element);
      break;
    case Op::kReduceScatterV:
      add_parts(f.reads, from, v.send_counts, v.send_displs, limits.size, element);
      add(f.writes, to, v.send_counts[limits.rank] * element);
      break;
    case Op::kAllToAllV:
      add_parts(f.reads, from, v.send_counts, v.send_displs, limits.size, element);
      add_parts(f.writes, to, v.recv_counts, v.recv_displs, limits.size, element);
      break;
    case Op::kSend:
      add(f.reads, from, part);
      break;
    case Op::kRecv:
      add(f.writes, to, part);
      break;
    case Op::kBarrier:
    case Op::kSplit:
    case Op::kDestroy:
    case Op::kNone:
      break;
  }
  return f;
}

}  // namespace npu::fuzz
