// Times whole training steps on random data: of one network in this process, or of a job's ranks
// with the daemon between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/profile.hpp"
#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

struct StepBenchOptions {
  std::string arch = "resnet50";
  int batch = 16;  // images of one rank
  int threads = 1;
  DType dtype = DType::kFloat32;
  uint32_t ranks = 1;
  int image_size = 224;
  int channels = 3;
  int classes = 1000;
  int steps = 10;
  int warmup = 2;
  bool profile = false;  // one rank only
};

struct StepBenchResult {
  double img_s = 0;               // over all ranks, from the median step
  double gflops = 0;              // over all ranks: multiply-adds of convolutions and classifier
  uint64_t peak_bytes = 0;        // of all processes that train, device arenas included
  uint64_t activation_bytes = 0;  // planned, of one rank
  double p50_ms = 0, p99_ms = 0;
  double cpu_ms = 0;  // processor time of a step, all ranks and the daemon: other load shows less
  /// Of all timed steps, most time first; what no kernel took is its last row. Empty unless asked
  /// for. With one thread processor time, else wall time.
  std::vector<model::ProfileRow> profile;
};

/// Errors: invalid_argument, not_found or unimplemented with exit 64 for a network that cannot be
/// planned; else the allocator's and the kernel's.
[[nodiscard]] Result<void> check_step_bench(const StepBenchOptions& options);

/// One rank through model/ alone, on heap memory: no daemon, no collectives, no loader.
[[nodiscard]] Result<StepBenchResult> run_step_bench(const StepBenchOptions& options);

/// The trainer on synthetic data, one forked process a rank. A step counts from the moment its
/// batch is ready. Errors: run_rank's. Thread: the main thread, before any other was started.
[[nodiscard]] Result<StepBenchResult> run_step_bench_ranks(const StepBenchOptions& options,
                                                           const std::string& socket);

}  // namespace npu::client
