// The writing end of a run's flight recorder: the last 4096 collectives in a segment that survives
// the run and that others may read at any time. Recording costs some twenty stores.
#pragma once

#include <cstdint>

#include "shm/segment.hpp"
#include "shm/trace_data.hpp"

namespace npu::daemon {

/// Thread: open and write by one thread, the engine's coordinator. Readers need no arrangement with
/// it (shm/trace_reader.hpp).
class FlightRecorder {
 public:
  /// Allocates and seals the segment. Errors: as shm::create_segment.
  [[nodiscard]] static Result<FlightRecorder> create(uint64_t generation, uint32_t world);

  /// Begins a record and returns its index. Nothing is to be seen of it before the first write.
  [[nodiscard]] uint64_t open() noexcept;
  /// Publishes the whole record; called again with each change of its state. A record that newer
  /// ones have pushed out is left out. What a client may have made up (op, dtype, reduce op) is
  /// recorded as "none" when it does not exist.
  void write(uint64_t index, const shm::TraceRecord& record) noexcept;

  [[nodiscard]] const shm::TraceRing& ring() const noexcept {
    return *reinterpret_cast<const shm::TraceRing*>(segment_.mapping.data());
  }
  /// Sealed: whoever gets it can map it read-only and cannot write to it.
  [[nodiscard]] int fd() const noexcept { return segment_.fd.get(); }

 private:
  explicit FlightRecorder(shm::Segment segment) noexcept : segment_(std::move(segment)) {}
  [[nodiscard]] shm::TraceRing& own() noexcept {
    return *reinterpret_cast<shm::TraceRing*>(segment_.mapping.data());
  }

  shm::Segment segment_;
};

}  // namespace npu::daemon
