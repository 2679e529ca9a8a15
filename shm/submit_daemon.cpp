#include "shm/submit_daemon.hpp"

#include <cstring>
#include <iterator>

namespace npu::shm {
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
    case Op::kAllGatherV:
      return "all-gather-v";
    case Op::kReduceScatterV:
      return "reduce-scatter-v";
    case Op::kAllToAllV:
      return "all-to-all-v";
    case Op::kSend:
      return "send";
    case Op::kRecv:
      return "recv";
    case Op::kSplit:
      return "split";
    case Op::kDestroy:
      return "destroy";
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
    case Fault::kStream:
      return "stream";
    case Fault::kPeer:
      return "peer rank";
  }
  return "unknown";
}

bool SubmissionReader::ready() const noexcept {
  const Descriptor& entry = page_->entries[head_ % kQueueDepth];
  return entry.stamp.load(std::memory_order_seq_cst) == head_ + 1;
}

namespace {

/// One copy through volatile: the compiler may not read a field twice while a client changes it.
template <typename T>
void copy_once(T& to, const T& from) noexcept {
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  const auto* words = reinterpret_cast<const volatile uint64_t*>(&from);
  uint64_t copy[sizeof(T) / sizeof(uint64_t)];
  for (size_t i = 0; i < std::size(copy); ++i) copy[i] = words[i];
  std::memcpy(static_cast<void*>(&to), copy, sizeof(T));
}

}  // namespace

bool SubmissionReader::pop(Submission& out, VectorArgs& vectors) noexcept {
  if (!ready()) return false;
  Descriptor copy;
  copy_once(copy, page_->entries[head_ % kQueueDepth]);
  out = Submission{.ticket = head_,
                   .generation = copy.generation,
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
                   .stream = copy.stream,
                   .inline_payload = {}};
  std::memcpy(out.inline_payload.data(), copy.inline_payload, kInlineBytes);
  if (copy.op < kOpCount && op_has_vectors(static_cast<Op>(copy.op))) {
    copy_once(vectors, page_->vectors[head_ % kQueueDepth]);
  }
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
