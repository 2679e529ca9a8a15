// What the control server shows of itself once a round of its loop.
#pragma once

#include <cstdint>

namespace npu::daemon {

struct Scene {
  uint32_t runs = 0;  // forming or running
  uint32_t devices_busy = 0, devices = 0;
  uint64_t disk_tasks = 0;  // checkpoints being written, listings, in the order they came
  bool draining = false;
};

}  // namespace npu::daemon
