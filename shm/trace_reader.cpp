#include "shm/trace_reader.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_data.hpp"

namespace npu::shm {
namespace {

constexpr int kTries = 8;

bool valid_rank_or_none(int32_t rank) noexcept {
  return rank >= -1 && rank < static_cast<int32_t>(kMaxDevices);
}

/// One look at record `index`; false if it is not there as a whole.
bool copy_record(const TraceSlot& slot, uint64_t index, TraceRecord& out) noexcept {
  // Each load acquires what FlightRecorder::write releases: whoever sees one word of a newer record
  // also sees, in `after`, that its version had become odd before.
  const uint32_t before = slot.version.load(std::memory_order_acquire);
  const uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
  uint64_t words[kTraceWords];
  for (size_t i = 0; i < std::size(words); ++i) {
    words[i] = slot.words[i].load(std::memory_order_acquire);
  }
  const uint32_t after = slot.version.load(std::memory_order_relaxed);
  if ((before & 1) != 0 || before != after || stamp != index + 1) return false;
  std::memcpy(&out, words, sizeof(out));
  return true;
}

}  // namespace

bool valid_trace_record(const TraceRecord& r) noexcept {
  const auto state = static_cast<TraceState>(r.state);
  const bool known_state = state == TraceState::kWaiting || state == TraceState::kRunning ||
                           state == TraceState::kDone || state == TraceState::kFailed;
  return known_state && r.op < kOpCount && r.algorithm < kAlgorithmCount &&
         (r.dtype < kDTypeCount || r.dtype == kTraceNone) &&
         (r.reduce_op < kReduceOpCount || r.reduce_op == kTraceNone) &&
         r.code <= static_cast<uint8_t>(Code::kInternal) && r.members != 0 &&
         (r.members >> kMaxDevices) == 0 && valid_rank_or_none(r.root_or_peer) &&
         valid_rank_or_none(r.culprit);
}

TraceSnapshot read_trace(const TraceRing& ring, uint64_t limit) {
  TraceSnapshot out;
  out.opened = ring.count.opened.load(std::memory_order_acquire);
  const uint64_t n = std::min({limit, out.opened, uint64_t{kTraceSlots}});
  out.records.reserve(n);
  for (uint64_t index = out.opened - n; index < out.opened; ++index) {
    TraceRecord record;
    bool whole = false;
    for (int i = 0; i < kTries && !whole; ++i) {
      whole = copy_record(ring.slots[index % kTraceSlots], index, record);
    }
    if (!whole) {
      ++out.torn;
    } else if (!valid_trace_record(record)) {
      ++out.bad;
    } else {
      out.records.push_back(record);
    }
  }
  return out;
}

}  // namespace npu::shm
