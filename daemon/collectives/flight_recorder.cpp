#include "daemon/collectives/flight_recorder.hpp"

#include <cstring>
#include <iterator>

#include "shm/base/dtype.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {
namespace {

/// Readers refuse a record with an impossible field; one that a client asked for must not hide the
/// record of its own failure.
shm::TraceRecord plausible(shm::TraceRecord record) noexcept {
  if (record.op >= shm::kOpCount) record.op = static_cast<uint8_t>(shm::Op::kNone);
  const auto op = static_cast<shm::Op>(record.op);
  if (record.dtype >= kDTypeCount || shm::op_moves_nothing(op)) record.dtype = shm::kTraceNone;
  if (record.reduce_op >= kReduceOpCount || !shm::op_reduces(op)) {
    record.reduce_op = shm::kTraceNone;
  }
  return record;
}

}  // namespace

Result<FlightRecorder> FlightRecorder::create(uint64_t generation, uint32_t world) {
  NPU_TRY(shm::Segment segment, shm::create_segment({.kind = shm::SegmentKind::kTrace,
                                                     .size_bytes = sizeof(shm::TraceRing),
                                                     .generation = generation,
                                                     .world = world}));
  return FlightRecorder(std::move(segment));
}

uint64_t FlightRecorder::open() noexcept {
  auto& opened = own().count.opened;
  const uint64_t index = opened.load(std::memory_order_relaxed);  // only we write it
  opened.store(index + 1, std::memory_order_release);             // pairs with read_trace
  return index;
}

void FlightRecorder::write(uint64_t index, const shm::TraceRecord& record) noexcept {
  shm::TraceSlot& slot = own().slots[index % shm::kTraceSlots];
  if (slot.stamp.load(std::memory_order_relaxed) > index + 1) return;
  const shm::TraceRecord copy = plausible(record);
  uint64_t words[shm::kTraceWords];
  std::memcpy(words, &copy, sizeof(copy));
  const uint32_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  // A seqlock without fences, which the thread sanitizer of GCC does not know: each word is
  // released after the odd version and acquired before the reader's second look at it. On x86-64
  // these are plain stores.
  slot.stamp.store(index + 1, std::memory_order_release);
  for (size_t i = 0; i < std::size(words); ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.version.store(version + 2, std::memory_order_release);  // pairs with copy_record
}

}  // namespace npu::daemon
