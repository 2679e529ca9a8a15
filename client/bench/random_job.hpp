// The job that a bench trains in rank processes.
#pragma once

#include <cstdint>
#include <string>

#include "config/job.hpp"

namespace npu::client {

struct RandomJob {
  std::string name;
  std::string arch;
  int classes = 0;
  uint32_t ranks = 1;
  int batch = 1;  // of a rank
  int steps = 1;
  int image_size = 0;
  int channels = 0;
};

/// A job on random data that stops after its steps, inside an epoch, and saves nothing.
[[nodiscard]] config::Job random_job(const RandomJob& wanted);

}  // namespace npu::client
