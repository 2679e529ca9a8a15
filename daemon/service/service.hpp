// The daemon as a service of systemd: what it says of itself, its watchdog, its configuration read again. Started
// by hand all of it is there and nobody listens.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "config/daemon.hpp"
#include "daemon/service/notify.hpp"
#include "daemon/service/scene.hpp"
#include "daemon/service/status.hpp"
#include "daemon/service/watchdog.hpp"

namespace npu::daemon {

struct ServiceOptions {
  std::string config_path;      // empty: there is nothing to read again
  config::DaemonConfig config;  // as the daemon was started
  bool levels_fixed = false;    // NPU_LOG is set: log_level of the file has no effect
};

/// What only others can judge of settings, such as users of this host.
using AcceptConfig = std::function<Result<void>(const config::DaemonConfig&)>;

/// Thread: the control server's.
class Service {
 public:
  explicit Service(ServiceOptions options);

  /// The socket listens. `pulses` must stay until the end.
  void ready(const Scene& scene, std::span<const Pulse* const> pulses);
  /// Once a round of the loop: status, watchdog, time for a checkpoint in the drain.
  void look_after(const Scene& scene);
  /// How long the loop may sleep, at most `most`.
  [[nodiscard]] milliseconds patience(milliseconds most) const;
  /// SIGHUP. The new settings, if the file is good; the caller applies what is its own.
  [[nodiscard]] std::optional<config::DaemonConfig> reload(const Scene& scene,
                                                            const AcceptConfig& accept);
  /// The drain begins.
  void draining(const Scene& scene);

 private:
  void look_at_watchdog(Clock::time_point now);
  void ask_for_time(const Scene& scene, Clock::time_point now);
  [[nodiscard]] std::string trouble() const;

  ServiceOptions options_;
  config::DaemonConfig present_;
  Notifier notifier_;
  StatusLine status_;
  std::optional<Watchdog> watchdog_;
  std::string stuck_;           // engine threads that do not get on
  std::string reload_trouble_;  // until the next reload
  std::optional<Clock::time_point> drain_began_, asked_at_;
  Clock::time_point counted_at_{};  // log lines that were left out
};

}  // namespace npu::daemon
