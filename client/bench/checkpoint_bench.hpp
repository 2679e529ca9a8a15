// What a checkpoint costs a job: the trainer on synthetic data, saving every few steps, watched
// through its events.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

struct CheckpointBenchOptions {
  std::string arch = "resnet50";
  int batch = 4;  // images of one rank
  int threads = 1;
  uint32_t ranks = 1;
  int image_size = 224;
  int channels = 3;
  int classes = 1000;
  int checkpoints = 5;  // timed; one more comes before them
  int every = 3;        // steps from one to the next
};

struct CheckpointBenchResult {
  double stall_ms = 0, stall_max_ms = 0;  // how long a checkpoint held rank 0 up: median, worst
  double durable_ms = 0;                  // the daemon's part, from all ranks' commits to the disk
  uint64_t bytes = 0;                     // of all files of a checkpoint
  double step_ms = 0;                     // a step without a checkpoint behind it, median
  double slow_ms = 0;  // how much longer the step after a checkpoint took: processor time of the
                       // helper and the daemon that the step had to share, and the stall
};

[[nodiscard]] config::Job checkpoint_bench_job(const CheckpointBenchOptions& options);

/// Errors: run_rank's. Thread: the main thread, before any other was started.
[[nodiscard]] Result<CheckpointBenchResult> run_checkpoint_bench(
    const CheckpointBenchOptions& options, const std::string& socket);

}  // namespace npu::client
