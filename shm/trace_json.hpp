// Records of a flight recorder as text for programs: our own JSON, and the Trace Event form that
// chrome://tracing and Perfetto open.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "shm/trace_data.hpp"

namespace npu::shm {

/// What is said about a trace as a whole.
struct TraceHead {
  std::string run;
  uint64_t generation = 0;
  std::string state;     // of the run: "running", "aborted", ...
  std::string error;     // why it was aborted, empty if it was not
  uint64_t opened = 0;   // collectives since the run started
  uint64_t skipped = 0;  // records that could not be read whole
  uint64_t now_ns = 0;   // CLOCK_MONOTONIC of a run that goes on, 0 for one that is over
};

/// {"schema":1,"run":...,"generation":...,"state":...,"error":...,"opened":...,"skipped":...,
/// "records":[...]} on one line. Times are microseconds since the earliest one shown; unknown
/// values are null. `records` must have passed valid_trace_record.
[[nodiscard]] std::string trace_json(const TraceHead& head, std::span<const TraceRecord> records);

/// {"displayTimeUnit":"ms","traceEvents":[...]}: the run is a process, a rank a thread; a slice
/// "wait" from the rank's arrival to the start, then one with the operation's name to the end.
[[nodiscard]] std::string trace_chrome(const TraceHead& head, std::span<const TraceRecord> records);

}  // namespace npu::shm
