#include "shm/trace_summary.hpp"

#include <algorithm>
#include <bit>

namespace npu::shm {
namespace {

std::optional<uint64_t> between(std::optional<uint64_t> from, uint64_t to) noexcept {
  if (!from || *from == 0 || to < *from) return std::nullopt;
  return to - *from;
}

template <typename Visit>
void each_time(const TraceRecord& record, const Visit& visit) noexcept {
  for (const uint64_t ns : record.arrival_ns) {
    if (ns != 0) visit(ns);
  }
  if (record.start_ns != 0) visit(record.start_ns);
  if (record.end_ns != 0) visit(record.end_ns);
}

}  // namespace

TraceSummary summarize(const TraceRecord& record, uint64_t now_ns) noexcept {
  TraceSummary out;
  uint32_t last_rank = 0;
  for (uint32_t r = 0; r < kMaxDevices; ++r) {
    const uint64_t ns = record.arrival_ns[r];
    if (((record.members >> r) & 1) == 0 || ns == 0) continue;
    out.arrived |= 1u << r;
    if (!out.first_ns || ns < *out.first_ns) out.first_ns = ns;
    if (!out.last_ns || ns > *out.last_ns) {
      out.last_ns = ns;
      last_rank = r;
    }
  }
  const uint32_t missing = record.members & ~out.arrived;
  if (out.arrived != 0 && std::popcount(record.members) > 1) {
    out.straggler = missing != 0 ? static_cast<uint32_t>(std::countr_zero(missing)) : last_rank;
  }
  const uint64_t end = record.end_ns != 0 ? record.end_ns : now_ns;
  out.wait_ns = between(out.first_ns, record.start_ns != 0 ? record.start_ns : end);
  out.run_ns = between(record.start_ns, end);
  return out;
}

uint64_t earliest_ns(std::span<const TraceRecord> records) noexcept {
  uint64_t earliest = UINT64_MAX;
  for (const TraceRecord& record : records) {
    each_time(record, [&](uint64_t ns) { earliest = std::min(earliest, ns); });
  }
  return earliest == UINT64_MAX ? 0 : earliest;
}

uint64_t latest_ns(std::span<const TraceRecord> records) noexcept {
  uint64_t latest = 0;
  for (const TraceRecord& record : records) {
    each_time(record, [&](uint64_t ns) { latest = std::max(latest, ns); });
  }
  return latest;
}

std::string_view trace_state_name(TraceState state) noexcept {
  switch (state) {
    case TraceState::kWaiting:
      return "waiting";
    case TraceState::kRunning:
      return "running";
    case TraceState::kDone:
      return "done";
    case TraceState::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string_view algorithm_name(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kDirect:
      return "direct";
  }
  return "unknown";
}

}  // namespace npu::shm
