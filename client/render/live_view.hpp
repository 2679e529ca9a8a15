// What the live lines under a running job say; pure text, no I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/render/events.hpp"

namespace npu::client {

/// Which rank the others wait for, over the collectives of the last second or so.
struct RankSkew {
  int last = -1;                    // came last most often
  double share = 0;                 // of the collectives in which it did, 0..1
  double lag_ms = 0;                // mean of last minus first arrival
  std::vector<double> rank_lag_ms;  // mean of each rank's arrival minus the first
};

/// All that is known now. One of `step` and `val` is shown, the newer one.
struct LiveState {
  int epochs = 0;
  int eval_every = 1;
  std::optional<StepEvent> step;
  std::optional<ValStepEvent> val;
  double validation_s = 0;  // what the last validation took
  std::optional<RankSkew> skew;
};

/// Seconds until the last epoch ends, validations included as far as they are known; negative when
/// unknown.
[[nodiscard]] double job_eta_s(const LiveState& state);

/// No line before the first step; else three of at most `columns` - 1 characters, or one where the
/// terminal has less than eight rows. Fields that do not fit are left out from the right. ASCII.
[[nodiscard]] std::vector<std::string> live_lines(const LiveState& state, int columns, int rows);

}  // namespace npu::client
