// Collectives over the ranks of a run, as seen by one rank: a call publishes a descriptor and
// returns a handle; the daemon's engines do the work in the ranks' arenas.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "shm/base/clock.hpp"
#include "shm/base/dtype.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_client.hpp"

namespace npu::client {

struct CollectiveOptions {
  shm::Algorithm algorithm = shm::Algorithm::kAuto;
  milliseconds timeout{60'000};  // from the first rank's arrival; 0 = never
  bool sum_squares = false;
  double scale = 1.0;  // premulsum
};

/// What a collective learned on the way.
struct CollectiveResult {
  bool found_inf = false;  // some rank's input was not finite
  bool result_inf = false;
  double sum_squares = 0;
  shm::Algorithm algorithm = shm::Algorithm::kAuto;
};

class Communicator;

/// A collective in flight. Destroying it without waiting leaves the operation to complete on its
/// own.
class Work {
 public:
  Work() noexcept = default;
  Work(Work&& other) noexcept;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  /// Blocks until the collective is done everywhere. Errors: failed_precondition (ranks disagree;
  /// names field and ranks), invalid_argument, deadline_exceeded / aborted / unavailable (the run
  /// is over; buffers are undefined).
  [[nodiscard]] Result<CollectiveResult> wait();
  /// True if wait() would not block.
  [[nodiscard]] bool ready() const noexcept;

 private:
  friend class Communicator;
  Work(Communicator* communicator, uint64_t ticket, void* inline_out,
       uint32_t inline_bytes) noexcept
      : communicator_(communicator),
        ticket_(ticket),
        inline_out_(inline_out),
        inline_bytes_(inline_bytes) {}
  Communicator* communicator_ = nullptr;
  uint64_t ticket_ = 0;
  void* inline_out_ = nullptr;
  uint32_t inline_bytes_ = 0;
};

/// Where a communicator lives: set up by Device.
struct CommunicatorPlace {
  shm::SubmitPage* submit = nullptr;
  const shm::StatusPage* status = nullptr;
  const shm::RunBoard* board = nullptr;
  std::span<std::byte> arena;
  uint64_t generation = 0;
  uint32_t rank = 0, world = 1;
  std::function<Error()> failure;             // what went wrong when `failed` is set
  const std::atomic<bool>* failed = nullptr;  // set by the device's reader
};

/// Buffers must lie in the device's arena, except payloads of at most 40 bytes, which travel in the
/// descriptor. Operations of one communicator run in submission order on every rank. Thread: any;
/// two threads on one communicator are safe, their operations are ordered as they happen to be
/// submitted. Nothing here allocates or locks.
class Communicator {
 public:
  explicit Communicator(CommunicatorPlace place);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// recv[i] = reduction over ranks of send[i], folded in ascending rank order. `send` may be
  /// `recv`.
  [[nodiscard]] Result<Work> all_reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                        ReduceOp op, const CollectiveOptions& options = {});
  /// `buffer` of every rank becomes rank `root`'s.
  [[nodiscard]] Result<Work> broadcast(void* buffer, uint64_t count, DType dtype, uint32_t root,
                                       const CollectiveOptions& options = {});
  /// As all_reduce, but only rank `root`'s recv is written; others may pass null.
  [[nodiscard]] Result<Work> reduce(const void* send, void* recv, uint64_t count, DType dtype,
                                    ReduceOp op, uint32_t root,
                                    const CollectiveOptions& options = {});
  /// recv (size() * count) = every rank's send (count) in rank order. In place: send == recv +
  /// rank() * count.
  [[nodiscard]] Result<Work> all_gather(const void* send, void* recv, uint64_t count, DType dtype,
                                        const CollectiveOptions& options = {});
  /// recv (count) = this rank's part of the reduction of send (size() * count). In place: recv ==
  /// send + rank() * count.
  [[nodiscard]] Result<Work> reduce_scatter(const void* send, void* recv, uint64_t count,
                                            DType dtype, ReduceOp op,
                                            const CollectiveOptions& options = {});
  /// recv (count) = this rank's part of root's send (size() * count); `send` may be null elsewhere.
  [[nodiscard]] Result<Work> scatter(const void* send, void* recv, uint64_t count, DType dtype,
                                     uint32_t root, const CollectiveOptions& options = {});
  /// Root's recv (size() * count) = every rank's send (count); `recv` may be null elsewhere.
  [[nodiscard]] Result<Work> gather(const void* send, void* recv, uint64_t count, DType dtype,
                                    uint32_t root, const CollectiveOptions& options = {});
  /// Part i of recv = part rank() of rank i's send, count elements a part. Not in place.
  [[nodiscard]] Result<Work> all_to_all(const void* send, void* recv, uint64_t count, DType dtype,
                                        const CollectiveOptions& options = {});
  /// Completes when every rank has called it.
  [[nodiscard]] Result<Work> barrier(const CollectiveOptions& options = {});

  /// Why the run is over, if it is. Every later call returns this.
  [[nodiscard]] std::optional<Error> failure() const;

  [[nodiscard]] uint32_t rank() const noexcept { return place_.rank; }
  [[nodiscard]] uint32_t size() const noexcept { return place_.world; }

 private:
  friend class Work;
  struct Buffers {
    const void* send;
    void* recv;
    uint64_t count;
    DType dtype;
    uint64_t send_parts = 1,
             recv_parts = 1;  // times count; 0 = the buffer is not used on this rank
  };
  [[nodiscard]] Result<Work> submit(shm::Request& request, const Buffers& buffers,
                                    const char* what);
  [[nodiscard]] Result<void> place_buffers(shm::Request& request, const Buffers& buffers,
                                           const char* what) const;
  /// Offset of `parts` x `part_bytes` at `p`; 0 when the buffer is not used.
  [[nodiscard]] Result<uint64_t> arena_offset(const void* p, uint64_t part_bytes, uint64_t parts,
                                              const char* what) const;
  [[nodiscard]] Result<shm::Outcome> wait(uint64_t ticket);
  [[nodiscard]] Error run_error() const;

  CommunicatorPlace place_;
  shm::Submitter submitter_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace npu::client
