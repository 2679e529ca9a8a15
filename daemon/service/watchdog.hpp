// Decides whether systemd's watchdog may be petted: only while every engine thread that has work gets on.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "daemon/collectives/pulse.hpp"
#include "shm/base/clock.hpp"

namespace npu::daemon {

/// That the main loop gets on is proven by asking. Thread: the control server's.
class Watchdog {
 public:
  /// `limit` is WatchdogSec=; it is petted four times in that time, so that one pet may be late by half
  /// of it on a machine that has too much to do.
  Watchdog(std::chrono::microseconds limit, std::span<const Pulse* const> pulses,
           Clock::time_point now);

  struct Verdict {
    bool pet = false;
    std::string stuck;  // names of the threads because of which it is not
  };
  /// Not due: neither. A thread is stuck when it has been in the same round since the last time.
  [[nodiscard]] Verdict look(Clock::time_point now);

  [[nodiscard]] Clock::time_point next() const noexcept { return next_; }

 private:
  std::chrono::microseconds period_;
  std::span<const Pulse* const> pulses_;
  std::vector<uint64_t> seen_;  // rounds, by thread
  Clock::time_point next_;
};

}  // namespace npu::daemon
