#include "daemon/metrics/counters.hpp"

namespace npu::daemon {
namespace {

size_t op_of(const FinishedOp& op) noexcept { return op.op < shm::kOpCount ? op.op : 0; }

size_t dtype_of(const FinishedOp& op) noexcept {
  const bool has_type = op.op < shm::kOpCount && !shm::op_moves_nothing(static_cast<shm::Op>(op.op));
  return has_type && op.dtype < kDTypeCount ? op.dtype : size_t{kDTypeCount};
}

uint64_t since(uint64_t from, uint64_t to) noexcept { return to > from ? to - from : 0; }

}  // namespace

const char* op_result_name(OpResult result) noexcept {
  switch (result) {
    case OpResult::kOk:
      return "ok";
    case OpResult::kTimeout:
      return "timeout";
    case OpResult::kAborted:
      return "aborted";
    case OpResult::kMismatch:
      return "mismatch";
    case OpResult::kRefused:
      return "refused";
  }
  return "unknown";
}

OpResult op_result_of(uint8_t code) noexcept {
  if (code == 0) return OpResult::kOk;
  switch (static_cast<Code>(code)) {
    case Code::kDeadlineExceeded:
      return OpResult::kTimeout;
    case Code::kFailedPrecondition:
      return OpResult::kMismatch;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kResourceExhausted:
    case Code::kUnimplemented:
      return OpResult::kRefused;
    default:
      return OpResult::kAborted;
  }
}

void EngineCounters::count(const FinishedOp& op) noexcept {
  const size_t o = op_of(op), t = dtype_of(op);
  const size_t algorithm = op.algorithm < shm::kAlgorithmCount ? op.algorithm : 0;
  ops[o][t][algorithm][static_cast<size_t>(op_result_of(op.code))].add(1);
  if (op.nonfinite) nonfinite[o][t].add(1);
  if (op.code != 0) return;
  bytes[o][t].add(op.payload_bytes);
  duration[o][size_class_of(op.payload_bytes)].add(since(op.last_ns, op.end_ns));
  arrival_skew[o].add(since(op.first_ns, op.last_ns));
}

void EngineCounters::count_busy(uint32_t device, const FinishedOp& op) noexcept {
  if (op.start_ns == 0 || device >= devices.size()) return;
  Device& d = devices[device];
  const bool reduces = op.op < shm::kOpCount && shm::op_reduces(static_cast<shm::Op>(op.op));
  (reduces ? d.reduce_ns : d.copy_ns).add(since(op.start_ns, op.end_ns));
}

}  // namespace npu::daemon
