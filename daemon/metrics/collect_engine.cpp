// Devices and collectives.
#include <array>

#include "daemon/metrics/collect.hpp"
#include "shm/base/dtype.hpp"

namespace npu::daemon {
namespace {

double to_seconds(uint64_t ns) noexcept { return static_cast<double>(ns) / 1e9; }

/// What changes with who holds the device.
void collect_leases(const MetricsView& view, Exposition& out) {
  auto attached = out.gauge("npud_device_attached",
                            "1 while a rank holds the device; run and rank are empty for those who may not know");
  auto state = out.gauge("npud_device_state", "1 for the state that the device is in");
  auto healthy =
      out.gauge("npud_device_healthy", "0 while others wait for the device's rank and nothing comes from it");
  auto age = out.gauge("npud_device_heartbeat_age_seconds",
                       "Since the rank on the device submitted something, or since it attached");
  auto used = out.gauge("npud_device_memory_used_bytes", "Device memory that a run took");
  auto depth = out.gauge("npud_ring_depth", "Submissions of the rank that are not answered");
  for (size_t d = 0; d < view.devices.size(); ++d) {
    const DeviceView& device = view.devices[d];
    const std::string id = std::to_string(d);
    const bool known = !device.run.empty();
    attached.add({{"device", id},
                  {"run", device.run},
                  {"uid", known ? std::to_string(device.uid) : ""},
                  {"rank", known ? std::to_string(device.rank) : ""}},
                 device.attached ? 1 : 0);
    const std::string_view now = device.stalled ? "stall" : device.attached ? "busy" : "idle";
    for (const std::string_view name : {"idle", "busy", "stall"}) {
      state.add({{"device", id}, {"state", std::string(name)}}, name == now ? 1 : 0);
    }
    healthy.add({{"device", id}}, device.stalled ? 0 : 1);
    if (device.attached) age.add({{"device", id}}, device.heartbeat_age_s);
    used.add({{"device", id}}, static_cast<double>(device.memory_used_bytes));
    depth.add({{"device", id}, {"ring", "submit"}}, static_cast<double>(device.ring_depth));
  }
}

}  // namespace

void collect_devices(const MetricsView& view, Exposition& out) {
  auto info = out.gauge("npud_device_info", "1; the devices there are");
  auto capacity = out.gauge("npud_device_memory_capacity_bytes", "Device memory that there is");
  auto ring = out.gauge("npud_ring_capacity", "Submissions that a rank may have open");
  auto busy = out.counter("npud_device_busy_seconds_total",
                          "Time in which operations were executed for the device; those of several streams add up");
  auto detached = out.counter("npud_device_detach_total", "How ranks left the device");
  auto errors = out.counter("npud_device_errors_total", "Submissions of the device that failed");
  for (size_t d = 0; d < view.devices.size(); ++d) {
    const std::string id = std::to_string(d);
    info.add({{"device", id}, {"model", "emulated"}}, 1);
    capacity.add({{"device", id}}, static_cast<double>(view.device_memory_bytes));
    ring.add({{"device", id}, {"ring", "submit"}}, shm::kQueueDepth);
    const EngineCounters::Device& engine = view.engine->devices[d];
    busy.add({{"device", id}, {"kind", "reduce"}}, to_seconds(engine.reduce_ns.value()));
    busy.add({{"device", id}, {"kind", "copy"}}, to_seconds(engine.copy_ns.value()));
    for (size_t r = 0; r < kDetachReasons; ++r) {
      detached.add({{"device", id}, {"reason", detach_reason_name(static_cast<DetachReason>(r))}},
                   static_cast<double>(view.control->detached[d][r]));
    }
    for (size_t code = 1; code < kCodes; ++code) {
      const uint64_t count = engine.errors[code].value();
      if (count == 0) continue;
      errors.add({{"device", id}, {"code", std::string(code_name(static_cast<Code>(code)))}},
                 static_cast<double>(count));
    }
  }
  collect_leases(view, out);
}

namespace {

constexpr std::array<const char*, shm::kAlgorithmCount> kAlgorithms = {"none", "ring", "direct"};
constexpr std::array<const char*, kSizeClasses> kSizes = {"le4k", "le64k", "le1m", "gt1m"};

std::string op_label(size_t op) { return op == 0 ? "none" : shm::op_name(static_cast<shm::Op>(op)); }

std::string dtype_label(size_t dtype) {
  return dtype < kDTypeCount ? std::string(dtype_name(static_cast<DType>(dtype))) : "none";
}

uint64_t total(const Histogram& histogram) noexcept {
  uint64_t sum = 0;
  for (const uint64_t n : histogram.counts()) sum += n;
  return sum;
}

/// Only what was ever counted has a series: 17 operations times 13 types times 3 times 5 would be many.
void collect_operations(const EngineCounters& engine, Exposition& out) {
  auto ops = out.counter("npud_collective_ops_total", "Operations that are over, by how they ended");
  auto bytes = out.counter("npud_collective_bytes_total", "Payload of one rank in operations that went well");
  auto nonfinite = out.counter("npud_collective_nonfinite_total",
                               "Reductions that met an infinity or a NaN, or for fp16 an overflow");
  for (size_t o = 0; o < shm::kOpCount; ++o) {
    for (size_t t = 0; t < kDTypeClasses; ++t) {
      const std::string op = op_label(o), dtype = dtype_label(t);
      bool any = false;
      for (size_t a = 0; a < shm::kAlgorithmCount; ++a) {
        for (size_t r = 0; r < kOpResults; ++r) {
          const uint64_t count = engine.ops[o][t][a][r].value();
          if (count == 0) continue;
          any = true;
          const char* const result = op_result_name(static_cast<OpResult>(r));
          ops.add({{"op", op}, {"dtype", dtype}, {"algo", kAlgorithms[a]}, {"result", result}},
                  static_cast<double>(count));
        }
      }
      if (!any) continue;
      bytes.add({{"op", op}, {"dtype", dtype}}, static_cast<double>(engine.bytes[o][t].value()));
      nonfinite.add({{"op", op}, {"dtype", dtype}}, static_cast<double>(engine.nonfinite[o][t].value()));
    }
  }
}

}  // namespace

void collect_collectives(const MetricsView& view, Exposition& out) {
  collect_operations(*view.engine, out);
  auto duration = out.histogram("npud_collective_duration_seconds",
                                "From the last rank's arrival to completion; size: payload of one rank");
  auto skew = out.histogram("npud_collective_arrival_skew_seconds", "From the first rank's arrival to the last one's");
  for (size_t o = 0; o < shm::kOpCount; ++o) {
    for (size_t s = 0; s < kSizeClasses; ++s) {
      const Histogram& histogram = view.engine->duration[o][s];
      if (total(histogram) != 0) duration.add({{"op", op_label(o)}, {"size", kSizes[s]}}, histogram);
    }
    if (total(view.engine->arrival_skew[o]) != 0) skew.add({{"op", op_label(o)}}, view.engine->arrival_skew[o]);
  }
  out.gauge("npud_collective_inflight", "Operations for which a rank has arrived and that are not over")
      .add({}, static_cast<double>(view.inflight));
  auto last = out.counter("npud_collective_last_arrival_total", "Operations in which the others waited for this rank");
  for (const RunView& run : view.runs) {
    for (uint32_t r = 0; r < run.world; ++r) {
      last.add({{"run", run.name}, {"uid", std::to_string(run.uid)}, {"rank", std::to_string(r)}},
               static_cast<double>(run.last_arrivals[r]));
    }
  }
}

}  // namespace npu::daemon
