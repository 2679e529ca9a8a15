// What people ask of a recorded collective: who came last, how long the others waited, how long it
// ran. One place for the table, the JSON and the Chrome form.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shm/submit_data.hpp"
#include "shm/trace_data.hpp"

namespace npu::shm {

/// Values that are not known (yet) are empty.
struct TraceSummary {
  uint32_t arrived = 0;  // bit r: rank r has arrived
  std::optional<uint64_t> first_ns, last_ns;
  /// The lowest member that is missing, else the one that arrived last. Empty if nobody has arrived
  /// or there is one member only.
  std::optional<uint32_t> straggler;
  std::optional<uint64_t> wait_ns;  // first arrival to start, or to the end without a start
  std::optional<uint64_t> run_ns;   // start to end
};

/// `now_ns` stands in for the end of what is not over; 0: such times stay empty. A record whose
/// times run backwards has empty durations.
[[nodiscard]] TraceSummary summarize(const TraceRecord& record, uint64_t now_ns) noexcept;

/// The earliest time in `records`, 0 if there is none; and the latest.
[[nodiscard]] uint64_t earliest_ns(std::span<const TraceRecord> records) noexcept;
[[nodiscard]] uint64_t latest_ns(std::span<const TraceRecord> records) noexcept;

/// "waiting", "running", "done", "failed".
[[nodiscard]] std::string_view trace_state_name(TraceState state) noexcept;
/// "auto", "ring", "direct".
[[nodiscard]] std::string_view algorithm_name(Algorithm algorithm) noexcept;

}  // namespace npu::shm
