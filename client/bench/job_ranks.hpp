// The ranks of a job that is measured: one forked process each, rank 0 in this one.
#pragma once

#include <string>

#include "client/render/events.hpp"
#include "client/train/trainer.hpp"
#include "config/job.hpp"

namespace npu::client {

/// Runs `job` to its end; `watch` gets rank 0's events. `name` stands in the messages of the other
/// ranks. Errors: run_rank's of rank 0. Thread: the main thread, before any other was started.
[[nodiscard]] Result<void> run_job_ranks(const config::Job& job, const std::string& socket,
                                         int threads, const char* name, EventSink& watch);

}  // namespace npu::client
