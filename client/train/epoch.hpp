// The loops of a job: one epoch of training steps, one pass over the validation set.
#pragma once

#include <functional>

#include "client/data/loader.hpp"
#include "client/data/open.hpp"
#include "client/train/replica.hpp"

namespace npu::client {

/// Running value and average of a time, in seconds.
struct TimeMeter {
  double value = 0, sum = 0;
  int64_t count = 0;
  void add(double seconds) noexcept {
    value = seconds;
    sum += seconds;
    ++count;
  }
  [[nodiscard]] double average() const noexcept {
    return count > 0 ? sum / static_cast<double>(count) : 0;
  }
};

/// Where the loops get their batches from.
struct Feed {
  const data::Data& data;
  data::BatchLoader& loader;
};

/// True for each multiple of `every`; 0 is never.
[[nodiscard]] constexpr bool is_due(int64_t every, int64_t count) noexcept {
  return every > 0 && count % every == 0;
}

struct EpochOptions {
  int epoch = 0;
  int64_t steps_per_epoch = 0;
  std::function<double(int64_t step_in_epoch)> lr;  // learning rate of a step, counted from 0
  int64_t stop_at_step = INT64_MAX;                 // global step after which training ends
  int64_t checkpoint_every_steps = 0;               // 0 = never
  int64_t memory_every_steps = 0;                   // checkpoints in memory; 0 = never
  bool validation_follows = true;  // else the next epoch: what the loader prepares ahead
};

struct EpochResult {
  bool stopped = false;      // stop_at_step was reached inside the epoch
  bool interrupted = false;  // a rank was asked to stop
  double seconds = 0;
  int64_t images = 0;  // trained by this process's run of the epoch, over all ranks
};

/// Trains from state.step_in_epoch to the end of the epoch, to stop_at_step, or to the end of the
/// step in which a rank is asked to stop: the same one on all ranks. On return `state`
/// says what is next. `save` makes a checkpoint of it. Errors: as collectives,
/// loader and daemon say; failed_precondition (exit 65) when the loss is not finite.
[[nodiscard]] Result<EpochResult> train_epoch(Replica& replica, const Feed& feed,
                                              const EpochOptions& options, TrainState& state,
                                              EventSink& events,
                                              const std::function<Result<void>(SaveTo)>& save);

struct ValResult {
  double loss = 0, acc1 = 0, acc5 = 0;  // percent
  int64_t samples = 0;
  double seconds = 0;
  bool interrupted = false;  // a rank was asked to stop meanwhile
};

/// Counts every sample of the validation set exactly once over the job, with the BN buffers that a
/// checkpoint would hold on all ranks.
[[nodiscard]] Result<ValResult> validate(Replica& replica, const Feed& feed, int epoch,
                                         EventSink& events);

}  // namespace npu::client
