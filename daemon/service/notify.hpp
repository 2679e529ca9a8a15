// What the daemon tells systemd (sd_notify(3)). Without NOTIFY_SOCKET nothing happens.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "shm/base/clock.hpp"

namespace npu::daemon {

/// Thread: one; no other may change the environment meanwhile.
class Notifier {
 public:
  /// Lines of `NAME=value`; a line of text that came from elsewhere must be made with status_line().
  void send(const std::string& lines) const noexcept;

  /// "STATUS=..." on one line: line ends and control characters would begin another variable.
  [[nodiscard]] static std::string status_line(std::string_view text);
  /// More time for the start or the stop, from now on.
  [[nodiscard]] static std::string more_time(milliseconds time);
  /// A reload begins now; READY=1 ends it.
  [[nodiscard]] static std::string reloading();
};

/// WatchdogSec= of the unit, if it means this process.
[[nodiscard]] std::optional<std::chrono::microseconds> watchdog_interval() noexcept;

}  // namespace npu::daemon
