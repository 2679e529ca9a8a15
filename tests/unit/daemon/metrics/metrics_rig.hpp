// A view with two runs of two users on four of eight devices.
#pragma once

#include <memory>

#include "daemon/metrics/view.hpp"

namespace npu::daemon {

struct MetricsRig {
  MetricsRig() {
    view.version = "1.2.3";
    view.engine = engine.get();
    view.control = control.get();
    view.device_memory_bytes = 4ull << 30;
    view.devices.resize(8);
  }

  /// A run of two ranks on devices `first` and the next one.
  RunView& add_run(const std::string& name, int64_t uid, uint32_t first) {
    for (uint32_t r = 0; r < 2; ++r) {
      DeviceView& device = view.devices[first + r];
      device.attached = true;
      device.memory_used_bytes = 1 << 20;
      device.run = name;
      device.uid = uid;
      device.rank = r;
      device.pid = 4000 + first + r;
    }
    RunView run;
    run.name = name;
    run.uid = uid;
    run.world = 2;
    run.generation = 41;
    view.runs.push_back(run);
    return view.runs.back();
  }

  std::unique_ptr<EngineCounters> engine = std::make_unique<EngineCounters>();
  std::unique_ptr<ControlCounters> control = std::make_unique<ControlCounters>();
  MetricsView view;
};

}  // namespace npu::daemon
