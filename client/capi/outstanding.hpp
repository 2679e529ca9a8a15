// What one rank has enqueued and nobody has finished yet, in the order of its streams; also the
// errors that wait to be asked for. Streams of the C interface are built from this: the C++ handles
// know nothing of each other.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "client/api/work.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_data.hpp"

namespace npu::capi {

/// Bytes of the program. Empty: bytes == 0.
struct MemoryRange {
  uintptr_t begin = 0;
  uint64_t bytes = 0;
  [[nodiscard]] bool overlaps(const MemoryRange& other) const noexcept {
    if (bytes == 0 || other.bytes == 0) return false;
    return begin < other.begin ? other.begin - begin < bytes : begin - other.begin < other.bytes;
  }
};

/// What an operation does to the program's memory, and when, seen from the rank. Engines read and
/// write the arena in stream order; copies made by the rank do not know that order.
struct Footprint {
  MemoryRange reads, writes;
  bool captures = false;  // its inputs are copied when it is enqueued
  bool late = false;      // its results are copied when it is finished
};

/// Invariants: (1) operations of a stream are finished in order, so that copies of results land in
/// order; (2) one thread at a time waits for a handle, others wait for that thread; (3) no lock is
/// held while waiting for the daemon. Thread: any; add() by one at a time.
class Outstanding {
 public:
  /// An operation that must be finished before another can be enqueued.
  struct Obstacle {
    uint8_t stream = 0;
    uint64_t sequence = 0;
  };

  /// What stands in the way of `uses` in `stream`: the oldest of all if the ring would be full, or
  /// the last whose results it would miss or overwrite.
  [[nodiscard]] std::optional<Obstacle> obstacle(uint8_t stream,
                                                 std::span<const Footprint> uses) const;
  /// Handles of one submission, as many as `uses`; obstacle() has found none.
  void add(std::span<client::Work> works, std::span<const Footprint> uses, uint8_t stream,
           uint32_t communicator);
  /// A call that blocks takes a place in the ring, too.
  void count_blocking();

  /// Each finishes what was there when it was called. False: `deadline` has passed.
  void finish(const Obstacle& obstacle);
  [[nodiscard]] bool finish_stream(uint8_t stream, Deadline deadline);
  void finish_communicator(uint32_t communicator);
  /// False if there is nothing to finish.
  bool finish_oldest();
  /// Finishes what is complete, without waiting. True if nothing of the stream is left.
  [[nodiscard]] bool reap(uint8_t stream);
  /// How many have been finished so far.
  [[nodiscard]] uint64_t finished() const;

  /// The first error of the stream; forgets all of it.
  [[nodiscard]] std::optional<Error> take_stream_error(uint8_t stream);
  /// The first error of the communicator, and whether to forget it.
  [[nodiscard]] std::optional<Error> communicator_error(uint32_t communicator, bool forget);

 private:
  /// Places in the ring that only blocking calls use, one for each thread inside one.
  static constexpr uint64_t kSpare = 16;
  static constexpr uint64_t kNone = UINT64_MAX;

  enum class State : uint8_t { kFree, kIdle, kWaited };
  struct Entry {
    client::Work work;
    MemoryRange writes;
    uint64_t position = 0;  // in the submission ring; at most as many as threads block too high
    uint64_t next = kNone;  // of its stream
    uint32_t communicator = 0;
    uint8_t stream = 0;
    bool late = false;
    State state = State::kFree;
  };
  struct KeptError {
    uint32_t communicator;
    Error error;
  };
  struct Stream {
    uint64_t first = kNone, last = kNone;  // sequences
    uint32_t late = 0;                     // entries whose results are copied when finished
    std::vector<KeptError> errors;         // the first of each communicator, oldest first
  };

  [[nodiscard]] Entry& at(uint64_t sequence) noexcept {
    return entries_[sequence % shm::kQueueDepth];
  }
  [[nodiscard]] const Entry& at(uint64_t sequence) const noexcept {
    return entries_[sequence % shm::kQueueDepth];
  }
  bool finish_first(std::unique_lock<std::mutex>& lock, uint8_t stream, Deadline deadline);
  bool finish_through(std::unique_lock<std::mutex>& lock, uint8_t stream, uint64_t sequence,
                      Deadline deadline);
  void retire_first(uint8_t stream) noexcept;
  void keep_error(uint8_t stream, uint32_t communicator, Error error);

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // an entry is no longer waited for
  std::array<Entry, shm::kQueueDepth> entries_;
  std::array<Stream, shm::kMaxStreams> streams_;
  uint64_t head_ = 0, tail_ = 0;  // sequences: the oldest that is not finished, the next
  uint64_t position_ = 0;
  uint64_t finished_ = 0;
};

}  // namespace npu::capi
