#include "shm/submit_daemon.hpp"

#include <cstring>

#include "shm/base/dtype.hpp"

namespace npu::shm {
namespace {

/// Bytes the operation reads at send_offset and writes at recv_offset on this rank; `part` is count
/// elements.
struct Extent {
  uint64_t send, recv;
};

Extent extent_of(const Submission& s, const SubmissionLimits& limits, uint64_t part) noexcept {
  const uint64_t all = part * limits.world;
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
    if (op != Op::kAllReduce && op != Op::kBroadcast) return Fault::kFlags;
    return bytes <= kInlineBytes ? Fault::kNone : Fault::kCount;
  }
  if (bytes > limits.arena_bytes) return Fault::kRange;  // world * bytes cannot overflow below
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

}  // namespace

const char* op_name(Op op) noexcept {
  switch (op) {
    case Op::kNone:
      break;
    case Op::kAllReduce:
      return "all-reduce";
    case Op::kBroadcast:
      return "broadcast";
    case Op::kBarrier:
      return "barrier";
    case Op::kReduce:
      return "reduce";
    case Op::kAllGather:
      return "all-gather";
    case Op::kReduceScatter:
      return "reduce-scatter";
    case Op::kScatter:
      return "scatter";
    case Op::kGather:
      return "gather";
    case Op::kAllToAll:
      return "all-to-all";
  }
  return "unknown operation";
}

std::string_view fault_name(Fault fault) noexcept {
  switch (fault) {
    case Fault::kNone:
      return "nothing";
    case Fault::kGeneration:
      return "generation";
    case Fault::kCommunicator:
      return "communicator";
    case Fault::kOp:
      return "operation";
    case Fault::kDType:
      return "data type";
    case Fault::kReduceOp:
      return "reduce op";
    case Fault::kAlgorithm:
      return "algorithm";
    case Fault::kFlags:
      return "flags";
    case Fault::kRoot:
      return "root";
    case Fault::kCount:
      return "count";
    case Fault::kRange:
      return "offset";
    case Fault::kAlignment:
      return "alignment";
    case Fault::kOverlap:
      return "overlap of send and receive buffer";
  }
  return "unknown";
}

Fault validate(const Submission& s, const SubmissionLimits& limits) noexcept {
  if (s.generation != limits.generation) return Fault::kGeneration;
  if (s.communicator != 0) return Fault::kCommunicator;
  if (s.op == 0 || s.op >= kOpCount) return Fault::kOp;
  if (s.algorithm >= kAlgorithmCount) return Fault::kAlgorithm;
  if ((s.flags & ~kFlagMask) != 0) return Fault::kFlags;
  const Op op = static_cast<Op>(s.op);
  if (op == Op::kBarrier) return Fault::kNone;
  const uint64_t element = dtype_size(static_cast<DType>(s.dtype));
  if (element == 0) return Fault::kDType;
  if (op_reduces(op) && s.reduce_op >= kReduceOpCount) return Fault::kReduceOp;
  if (op_has_root(op) && s.root >= limits.world) return Fault::kRoot;
  return validate_ranges(s, limits, element);
}

bool SubmissionReader::ready() const noexcept {
  const Descriptor& entry = page_->entries[head_ % kQueueDepth];
  return entry.stamp.load(std::memory_order_seq_cst) == head_ + 1;
}

bool SubmissionReader::pop(Submission& out) noexcept {
  if (!ready()) return false;
  const Descriptor& entry = page_->entries[head_ % kQueueDepth];
  // One copy through volatile: the compiler may not read a field twice while a client changes it.
  Descriptor copy;
  const auto* from = reinterpret_cast<const volatile uint64_t*>(&entry);
  uint64_t words[sizeof(Descriptor) / sizeof(uint64_t)];
  for (size_t i = 0; i < std::size(words); ++i) words[i] = from[i];
  std::memcpy(static_cast<void*>(&copy), words, sizeof(copy));
  out = Submission{.ticket = head_,
                   .generation = copy.generation,
                   .sequence = copy.sequence,
                   .count = copy.count,
                   .send_offset = copy.send_offset,
                   .recv_offset = copy.recv_offset,
                   .scale = copy.scale,
                   .communicator = copy.communicator,
                   .timeout_ms = copy.timeout_ms,
                   .root = copy.root,
                   .flags = copy.flags,
                   .op = copy.op,
                   .dtype = copy.dtype,
                   .reduce_op = copy.reduce_op,
                   .algorithm = copy.algorithm,
                   .inline_payload = {}};
  std::memcpy(out.inline_payload.data(), copy.inline_payload, kInlineBytes);
  ++head_;
  return true;
}

void CompletionWriter::publish(uint64_t ticket, const CompletionFields& fields) noexcept {
  Completion& slot = page_->completions[ticket % kQueueDepth];
  slot.sequence = fields.sequence;
  slot.sum_squares = fields.sum_squares;
  slot.code = fields.code;
  slot.found_inf = fields.found_inf ? 1 : 0;
  slot.result_inf = fields.result_inf ? 1 : 0;
  slot.algorithm = static_cast<uint8_t>(fields.algorithm);
  slot.culprit = fields.culprit;
  if (fields.inline_payload != nullptr) {
    std::memcpy(slot.inline_payload, fields.inline_payload, kInlineBytes);
  }
  if (fields.code != 0) {
    const uint32_t index = next_text_++ % kErrorTexts;
    ErrorText& text = page_->error_texts[index];
    const size_t n = fields.error_text.copy(text.text, kErrorTextBytes - 1);
    text.text[n] = '\0';
    text.ticket_stamp.store(ticket + 1, std::memory_order_release);
    slot.error_text = index;
  }
  // Pairs with the acquire in Submitter::poll.
  slot.stamp.store(ticket + 1, std::memory_order_release);
}

}  // namespace npu::shm
