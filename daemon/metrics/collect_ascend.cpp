// Some values once more under the names and in the units of Ascend's exporter, so that boards made for it show
// something. What an emulated device has not (temperature, power, voltage) is left out.
#include <cmath>

#include "daemon/metrics/collect.hpp"

namespace npu::daemon {
namespace {

double to_mb(uint64_t bytes) noexcept { return std::floor(static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

void collect_ascend(const MetricsView& view, Exposition& out) {
  out.gauge("machine_npu_nums", "Devices of this host").add({}, static_cast<double>(view.devices.size()));
  auto utilization = out.gauge("npu_chip_info_utilization", "Percent of time in which operations were executed");
  auto used = out.gauge("npu_chip_info_hbm_used_memory", "Device memory in use, MB");
  auto total = out.gauge("npu_chip_info_hbm_total_memory", "Device memory, MB");
  auto health = out.gauge("npu_chip_info_health_status", "1 healthy, 0 not");
  auto error = out.gauge("npu_chip_info_error_code", "0, there are none");
  auto process = out.gauge("npu_chip_info_process_info", "Device memory of a process, MB");
  for (size_t d = 0; d < view.devices.size(); ++d) {
    const DeviceView& device = view.devices[d];
    const std::string id = std::to_string(d);
    utilization.add({{"id", id}}, std::round(100 * view.busy[d]));
    used.add({{"id", id}}, to_mb(device.memory_used_bytes));
    total.add({{"id", id}}, to_mb(view.device_memory_bytes));
    health.add({{"id", id}}, device.stalled ? 0 : 1);
    error.add({{"id", id}}, 0);
    if (device.pid != 0) {
      process.add({{"id", id}, {"process_id", std::to_string(device.pid)}}, to_mb(device.memory_used_bytes));
    }
  }
}

}  // namespace npu::daemon
