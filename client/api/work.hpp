// Handles of operations in flight.
#pragma once

#include <array>
#include <cstdint>

#include "client/api/device_queue.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

/// What a collective learned on the way.
struct CollectiveResult {
  bool found_inf = false;  // some rank's input was not finite
  bool result_inf = false;
  double sum_squares = 0;
  shm::Algorithm algorithm = shm::Algorithm::kAuto;
};

/// A buffer outside the arena and its copy inside.
struct StagedCopy {
  std::byte* copy = nullptr;  // in the staging region
  void* back_to = nullptr;    // where results go; null if it is only read
  uint64_t bytes = 0;
};

/// Where a small result goes that travels in the completion.
struct InlineResult {
  void* to = nullptr;
  uint32_t bytes = 0;
};

/// An operation in flight. Destroying it without waiting leaves the operation to complete on its
/// own; only if buffers were staged, the destructor waits.
class Work {
 public:
  Work() noexcept = default;
  Work(DeviceQueue& queue, uint64_t ticket, InlineResult inline_result,
       std::array<StagedCopy, 2> staged) noexcept
      : queue_(&queue), ticket_(ticket), inline_(inline_result), staged_(staged) {}
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  /// Blocks until the operation is done everywhere. Errors: failed_precondition (ranks disagree;
  /// names field and ranks), invalid_argument, deadline_exceeded / aborted / unavailable (the run
  /// is over; buffers are undefined).
  [[nodiscard]] Result<CollectiveResult> wait() { return wait(Deadline::never()); }
  /// As wait(); after `deadline` it returns deadline_exceeded, nothing is cancelled, and valid()
  /// stays true: wait again.
  [[nodiscard]] Result<CollectiveResult> wait(Deadline deadline);
  /// True if wait() would not block.
  [[nodiscard]] bool ready() const noexcept;
  /// False after a wait that ended, and for a handle that never held an operation.
  [[nodiscard]] bool valid() const noexcept { return queue_ != nullptr; }

 private:
  void drop() noexcept;
  void unstage(bool copy_back) noexcept;

  DeviceQueue* queue_ = nullptr;
  uint64_t ticket_ = 0;
  InlineResult inline_;
  std::array<StagedCopy, 2> staged_{};
};

}  // namespace npu::client
