#include "daemon/metrics/control_counters.hpp"

#include <algorithm>
#include <chrono>

namespace npu::daemon {
namespace {

constexpr uint64_t kWindowNs = 1'000'000'000;

}  // namespace

const char* detach_reason_name(DetachReason reason) noexcept {
  switch (reason) {
    case DetachReason::kClean:
      return "clean";
    case DetachReason::kKilled:
      return "killed";
    case DetachReason::kClosed:
      return "closed";
    case DetachReason::kRefused:
      return "refused";
    case DetachReason::kProtocol:
      return "protocol";
  }
  return "unknown";
}

DetachReason detach_reason_of(bool detached, std::string_view how) noexcept {
  if (detached) return DetachReason::kClean;
  if (how == "died") return DetachReason::kKilled;
  if (how == "closed its connection") return DetachReason::kClosed;
  if (how.starts_with("was refused") || how.starts_with("could not")) return DetachReason::kRefused;
  return DetachReason::kProtocol;
}

double unix_seconds() noexcept {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

BusyMeter::ByDevice BusyMeter::sample(const EngineCounters& engine, uint64_t now_ns) noexcept {
  if (at_ns_ != 0 && now_ns - at_ns_ < kWindowNs) return last_;
  for (size_t d = 0; d < busy_ns_.size(); ++d) {
    const uint64_t busy = engine.devices[d].reduce_ns.value() + engine.devices[d].copy_ns.value();
    if (at_ns_ != 0) {
      last_[d] = std::min(1.0, static_cast<double>(busy - busy_ns_[d]) / static_cast<double>(now_ns - at_ns_));
    }
    busy_ns_[d] = busy;
  }
  at_ns_ = now_ns;
  return last_;
}

}  // namespace npu::daemon
