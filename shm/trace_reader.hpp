// Reads a flight recorder while it is being written: whole records only, oldest first, each
// checked before anybody uses it as an index or a name.
#pragma once

#include <cstdint>
#include <vector>

#include "shm/trace_data.hpp"

namespace npu::shm {

struct TraceSnapshot {
  std::vector<TraceRecord> records;  // oldest first
  uint64_t opened = 0;               // records since the run started; the ring keeps kTraceSlots
  uint64_t torn = 0;                 // skipped: being written, or overtaken by newer ones
  uint64_t bad = 0;                  // skipped: a field has a value that nobody writes
};

/// True if every field is inside its range. Times are not compared: what they mean is for the
/// reader to judge.
[[nodiscard]] bool valid_trace_record(const TraceRecord& record) noexcept;

/// Copies the newest `limit` records. Never waits for the writer: a record in change is tried a few
/// times and then skipped. Thread: any. Cost: 192 bytes read a record.
[[nodiscard]] TraceSnapshot read_trace(const TraceRing& ring, uint64_t limit = kTraceSlots);

}  // namespace npu::shm
