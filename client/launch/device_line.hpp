// A place in the daemon's line for devices: what `npu launch --wait` stands in.
// docs/design/017-users.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/api/connection.hpp"
#include "client/launch/stop_signals.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

struct DeviceWait {
  std::string socket{};
  std::string run{};
  std::vector<int> devices{};
  /// Nothing: as long as it takes.
  std::optional<milliseconds> limit{};
  /// Told when the devices are busy, and when the place or the reason changes. May be empty.
  std::function<void(uint32_t place, const std::string& why)> on_place{};
};

/// Devices that the daemon keeps for the ranks of one run as long as this lives.
class DeviceHold {
 public:
  /// Stands in line until all devices are this run's. Errors: unavailable, exit 75 (not within
  /// `limit`: who has them), exit 69 (the daemon ended); permission_denied (somebody ended the
  /// launch); resource_exhausted (more than the quota); aborted, exit 128 + signal. Thread: the
  /// main thread.
  [[nodiscard]] static Result<DeviceHold> wait(const DeviceWait& request, StopSignals& signals);

  /// False when the daemon that kept the devices is gone.
  [[nodiscard]] bool holds() const noexcept;

 private:
  explicit DeviceHold(Connection connection) : connection_(std::move(connection)) {}
  Connection connection_;
};

}  // namespace npu::client
