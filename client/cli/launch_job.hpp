// Which job `npu launch` was asked for: a file, or what flags and a data folder stand for.
#pragma once

#include <string>
#include <vector>

#include "client/frontend/flags.hpp"
#include "config/job.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::cli {

struct JobRequest {
  std::string target;   // JOB or DATA_DIR, may be empty
  std::string profile;  // --profile, may be empty
  frontend::Given given;
  std::vector<std::string> overrides;  // --set
};

struct PreparedJob {
  config::Job job;                     // devices as the host numbers them
  std::string file;                    // what the ranks read
  std::vector<std::string> overrides;  // what they apply
  std::string text;                    // of --print-job
  std::vector<std::string> remarks;    // for stderr, a line each
  UniqueFd memory;                     // behind `file` when there is none on disk
};

/// Errors: what flags, folder, environment and loader say; a placement that `strict` refuses.
[[nodiscard]] Result<PreparedJob> prepare_job(const JobRequest& request);

}  // namespace npu::cli
