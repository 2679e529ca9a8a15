// One rank of a job, start to finish: attach, build, broadcast, train, validate, checkpoint,
// detach.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "client/render/events.hpp"
#include "config/job.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

struct RankOptions {
  std::string socket;   // the daemon's
  std::string run_key;  // ranks of one run present the same key; empty for a run of one uid
  int rank = 0;
  int threads = 1;  // compute threads of this rank
  /// Called from a thread of the library when a peer died or the daemon is gone, so that a rank
  /// deep in a step can end at once. run_rank returns the same error by itself as soon as it gets
  /// to its next collective.
  std::function<void(const Error&)> on_failure = {};
  /// Called from loader threads, for what a person should know and no event carries: an image that
  /// cannot be read, once a kind.
  std::function<void(const std::string&)> on_warning = {};
  int pictures_fd = -1;  // memory for decoded pictures that all ranks share (data::PictureMemory)
  /// Not 0: the job is to stop after its present step. One rank's is enough; null: never.
  const std::atomic<int>* stop_signal = nullptr;
  /// Called before the first step: from here on stop_signal is looked at.
  std::function<void()> on_training = {};
};

enum class RankEnd : uint8_t {
  kFinished,
  kStopped,  // asked to, with epochs left; the checkpoint of its last step is durable
};

/// Trains rank `options.rank` of `job` (or only evaluates it) and returns when the job is over, the
/// same on all ranks. Only rank 0 emits events other than errors. Errors: as each part says;
/// aborted names the rank that failed first, unavailable a lost daemon. Thread: one call a process.
[[nodiscard]] Result<RankEnd> run_rank(const config::Job& job, const RankOptions& options,
                                       EventSink& events);

}  // namespace npu::client
