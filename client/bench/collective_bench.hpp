// Times collectives over real rank processes and checks every element on every rank at every size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/api/communicator.hpp"
#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

struct BenchOptions {
  shm::Op op = shm::Op::kAllReduce;
  uint64_t begin_bytes = 1024;
  uint64_t end_bytes = uint64_t{64} << 20;
  double factor = 2;
  int iterations = 20;
  int warmup = 5;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  uint32_t ranks = 8;
  shm::Algorithm algorithm = shm::Algorithm::kAuto;
  bool odd = false;      // one element more than the size asks for
  bool unalign = false;  // buffers start one element off a line, differently on each rank
};

/// One size. `bytes` as nccl-tests counts them: per rank, for parted operations over all ranks.
struct BenchRow {
  uint64_t bytes = 0;
  uint64_t count = 0;  // elements as passed to the call
  double p50_us = 0, p99_us = 0;
  double algbw_gbs = 0, busbw_gbs = 0;
  double mem_fraction = 0;  // bytes that must cross the memory bus / time / measured bandwidth
  uint64_t wrong = 0;
  shm::Algorithm algorithm = shm::Algorithm::kAuto;  // that ran
};

/// Runs all sizes: one forked process a rank, rank 0's process calls `on_row`. Returns the number
/// of wrong elements. Errors: attach's; aborted. Thread: the main thread, before any other was
/// started (it forks).
[[nodiscard]] Result<uint64_t> run_collective_bench(
    const std::string& socket, const BenchOptions& options, double memory_bandwidth,
    const std::function<void(const BenchRow&)>& on_row);

}  // namespace npu::client
