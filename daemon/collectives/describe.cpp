#include "daemon/collectives/describe.hpp"

#include <fmt/core.h>

#include "shm/base/dtype.hpp"

namespace npu::daemon {

std::string describe(const Pending& pending) {
  using shm::Op;
  const shm::Submission& s = pending.s;
  const Op op = static_cast<Op>(s.op);
  std::string where =
      s.communicator == 0 ? std::string() : fmt::format(" on communicator {}", s.communicator);
  std::string name = fmt::format("{} seq {}{}", shm::op_name(op), pending.sequence, where);
  if (shm::op_moves_nothing(op)) return name;
  std::string detail(dtype_name(static_cast<DType>(s.dtype)));
  if (shm::op_reduces(op)) {
    detail += fmt::format(", {}", reduce_op_name(static_cast<ReduceOp>(s.reduce_op)));
  }
  if (shm::op_has_root(op)) detail += fmt::format(", root {}", s.root);
  if (op == Op::kSend) detail += fmt::format(", to rank {}", s.root);
  if (op == Op::kRecv) detail += fmt::format(", from rank {}", s.root);
  return fmt::format("{} ({}, {} elements)", name, detail, s.count);
}

}  // namespace npu::daemon
