// When a job that failed is started again, and how long to wait before: numbers only, no processes
// (docs/design/015-restart.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/base/clock.hpp"

namespace npu::client {

inline constexpr milliseconds kLongestBackoff{30'000};

struct RestartPolicy {
  int max_restarts = 0;        // in a row without a new checkpoint
  milliseconds backoff{1000};  // before the first of them; doubles up to kLongestBackoff
  /// "a.b=v" for the ranks of a restart, once this launch has made a checkpoint: it goes on from
  /// there, wherever the job began.
  std::vector<std::string> overrides{};
};

/// False for exit codes that would come again (usage, input, NaN, permission, configuration) and
/// for the two good ends, 0 and 80.
[[nodiscard]] bool worth_restarting(int exit_code) noexcept;

/// How many restarts are left. Thread: one.
class RestartBudget {
 public:
  explicit RestartBudget(const RestartPolicy& policy) noexcept : policy_(policy) {}

  /// A checkpoint of `step` became durable, or is in the daemon's memory. Above all earlier ones it
  /// is progress: the whole budget and the shortest wait are back.
  void note_checkpoint(int64_t step) noexcept;

  /// Takes one restart and says how long to wait before it; nothing when none is left.
  [[nodiscard]] std::optional<milliseconds> take() noexcept;

  /// Restarts in all, and since the last progress.
  [[nodiscard]] int restarts() const noexcept { return restarts_; }
  [[nodiscard]] int fruitless() const noexcept { return fruitless_; }

 private:
  const RestartPolicy& policy_;
  int restarts_ = 0, fruitless_ = 0;
  int64_t best_step_ = -1;
};

}  // namespace npu::client
