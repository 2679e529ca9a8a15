#include "daemon/service/watchdog.hpp"

namespace npu::daemon {

Watchdog::Watchdog(std::chrono::microseconds limit, std::span<const Pulse* const> pulses,
                   Clock::time_point now)
    : period_(limit / 4), pulses_(pulses), seen_(pulses.size(), 0), next_(now) {}

Watchdog::Verdict Watchdog::look(Clock::time_point now) {
  if (now < next_) return {};
  next_ = now + period_;
  Verdict verdict;
  for (size_t i = 0; i < pulses_.size(); ++i) {
    const uint64_t rounds = pulses_[i]->rounds();
    const bool stands = rounds == seen_[i] && pulses_[i]->works();
    seen_[i] = rounds;
    if (!stands) continue;
    verdict.stuck += (verdict.stuck.empty() ? "" : ", ") + std::string(pulses_[i]->name());
  }
  verdict.pet = verdict.stuck.empty();
  return verdict;
}

}  // namespace npu::daemon
