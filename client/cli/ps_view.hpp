// Runs and recorded collectives as tables for people; runs as an object for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/api/admin.hpp"

namespace npu::cli {

/// One line a run, then why runs were aborted; TIME is [days-]hours:minutes:seconds from the first
/// rank's coming to the run's end, or to `now_unix`. Not stable.
[[nodiscard]] std::string runs_table(const std::vector<client::RunInfo>& runs, int64_t now_unix);

/// {"schema":1,"runs":[...]} on one line; the pid of a rank that is not there is null, so is the
/// end of a run that goes on.
[[nodiscard]] std::string runs_json(const std::vector<client::RunInfo>& runs, int64_t now_unix);

/// One line a collective, oldest first; "NA" where nothing is known. `now_ns` as in
/// shm::summarize. Not stable.
[[nodiscard]] std::string trace_table(const client::Trace& trace, uint64_t now_ns);

}  // namespace npu::cli
