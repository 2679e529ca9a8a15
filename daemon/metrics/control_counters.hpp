// What the control server counts. Writer and reader are its thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "daemon/metrics/counters.hpp"
#include "daemon/metrics/requests.hpp"
#include "daemon/metrics/run_history.hpp"

namespace npu::daemon {

/// Why a rank's device came free.
enum class DetachReason : uint8_t { kClean, kKilled, kClosed, kRefused, kProtocol };
inline constexpr size_t kDetachReasons = 5;
[[nodiscard]] const char* detach_reason_name(DetachReason reason) noexcept;
/// `how`: the words of the control server for it, "died".
[[nodiscard]] DetachReason detach_reason_of(bool detached, std::string_view how) noexcept;

/// For timestamps that leave the process; everything else is measured on the monotonic clock.
[[nodiscard]] double unix_seconds() noexcept;

/// The part of the last second or more in which an operation was executed for each device, 0 to 1.
/// Asked in quick succession it answers the same.
class BusyMeter {
 public:
  using ByDevice = std::array<double, shm::kMaxDevices>;
  [[nodiscard]] ByDevice sample(const EngineCounters& engine, uint64_t now_ns) noexcept;

 private:
  std::array<uint64_t, shm::kMaxDevices> busy_ns_{};
  uint64_t at_ns_ = 0;
  ByDevice last_{};
};

struct ControlCounters {
  RequestMeter requests;
  std::array<std::array<uint64_t, kDetachReasons>, shm::kMaxDevices> detached{};
  uint64_t runs_completed = 0, runs_failed = 0;
  Histogram checkpoint_duration;  // handed over by all ranks, to durable
  uint64_t verify_failures = 0;   // checkpoints that were read and did not hold
  RunHistories histories;
  BusyMeter busy;
  bool config_ok = true;   // the last reading of the YAML file
  double config_unix = 0;  // of the last that was good
};

}  // namespace npu::daemon
