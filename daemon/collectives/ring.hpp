// `ring`: a slice travels 0 -> 1 -> ... -> N-1 as a partial in a scratch slot, each device's engine
// folding its own data in, then once more around as the result. Hops are SPSC queues; many slices
// are in flight, as in a systolic pipeline. Every slice starts at rank 0, so the bits are those of
// `direct`.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/collectives/active.hpp"

namespace npu::daemon {

/// Invariants: (1) hop i is pushed by device i-1's engine only and popped by device i's only; (2) a
/// slot belongs to the engine that holds its token; (3) at most kRingSlots tokens exist, so no hop
/// can be full. Thread: serve(d) by the one thread that owns device d; inject and reap by the
/// coordinator.
class Ring {
 public:
  static constexpr uint32_t kSlots = 8;

  /// Elements of a slice: a multiple of a block whose accumulator fits a slot.
  [[nodiscard]] static uint64_t slice_elements(uint64_t element_bytes, uint64_t acc_bytes) noexcept;

  /// Scratch for `ranks` devices; allocates once.
  explicit Ring(uint32_t ranks);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Starts a slice of `active` if a slot is free and a slice is left. Coordinator only.
  bool inject(Active& active) noexcept;
  /// Takes finished slices back; true if any. Coordinator only.
  bool reap() noexcept;
  /// Device `device` moves one token on; true if it did. `thread`: the caller's number.
  bool serve(uint32_t device, uint32_t thread = 0) noexcept;
  /// True if device `device` has a token waiting.
  [[nodiscard]] bool has_work(uint32_t device) const noexcept;
  /// True if finished slices wait to be reaped.
  [[nodiscard]] bool has_finished() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::daemon
