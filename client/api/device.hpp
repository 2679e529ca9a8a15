// libnpu: a leased device of a run. Attach gives memory that the daemon's engines work on and a
// communicator over all ranks; when anything in the run or the daemon breaks, every call says so.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/api/communicator.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/messages.hpp"
#include "shm/progress_client.hpp"

namespace npu::client {

struct AttachOptions {
  std::string socket;
  std::string run;      // [a-z0-9._-]{1,64}
  std::string run_key;  // ranks of one launch present the same
  uint32_t world = 1;
  uint32_t rank = 0;
  uint32_t device = 0;
  uint64_t arena_bytes = 0;
  /// Taken from the arena's end for copies of buffers outside it; 0: such buffers are refused.
  uint64_t staging_bytes = 0;
  uint64_t job_hash = 0;
  milliseconds join_timeout{60'000};  // 0 = never
  /// How long a daemon that died is waited for; when it comes back the run goes on where it was,
  /// and no call notices; also one that does not answer at the attach. 0: its death ends the run.
  milliseconds reconnect{0};
  /// Called once, from a thread of the library, when the run is over without this rank's doing: a
  /// peer died, the daemon is gone. Calls in progress return the same error by themselves.
  std::function<void(const Error&)> on_failure;
};

struct CheckpointReport {
  int64_t step = 0;
  std::string path;
  uint64_t bytes = 0;
  double durable_ms = 0;
};

/// Invariants: (1) the arena does not move; (2) after a failure() every call returns that error.
/// Thread: any, except detach, which is called once at the end.
class Device {
 public:
  /// Leases the device and waits until all ranks are there. Reads NPU_COLL_ALGO and
  /// NPU_COLL_TIMEOUT (bad values: invalid_argument, exit 78).
  /// Errors: unavailable (no daemon; or exit 75: device busy, names the holder); deadline_exceeded
  /// (names the ranks that are missing); failed_precondition (world, job or version differ);
  /// resource_exhausted (memory).
  [[nodiscard]] static Result<std::unique_ptr<Device>> attach(const AttachOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Without the staging region.
  [[nodiscard]] std::span<std::byte> arena() noexcept;
  [[nodiscard]] Communicator& world() noexcept;
  [[nodiscard]] uint32_t rank() const noexcept;
  [[nodiscard]] uint64_t generation() const noexcept;
  [[nodiscard]] std::optional<Error> failure() const;

  /// NPU_COLL_ALGO and NPU_COLL_TIMEOUT as they were at attach.
  [[nodiscard]] const CollectiveEnv& environment() const noexcept;

  /// A new ordered queue. Errors: resource_exhausted (16 exist, the default one included).
  [[nodiscard]] Result<Stream> create_stream();
  /// Its operations must be done. Stream 0 stays.
  void destroy_stream(Stream stream) noexcept;
  /// Buffers that were copied because they did not lie in the arena; 0 is what a fast program has.
  [[nodiscard]] uint64_t staged_copies() const noexcept;

  /// Advisory step counter, shown by `npu info`.
  void set_progress(uint64_t step) noexcept;
  /// What `npu metrics` shows of the run; for rank 0, from one thread.
  void describe_training(std::string_view arch, std::string_view precision) noexcept;
  void report_step(const shm::StepReport& step) noexcept;
  void report_validation(double loss, double top1, double top5) noexcept;  // hits from 0 to 1

  /// Hands a staged snapshot (rank 0) or a replica digest (others) to the daemon; returns at once.
  /// The staged bytes must stay untouched until the future is ready; once every rank has called,
  /// the checkpoint becomes durable even if all ranks die. Errors through the future: data_loss
  /// (replicas differ, torn snapshot), resource_exhausted (disk full).
  [[nodiscard]] std::future<Result<CheckpointReport>> commit_checkpoint(
      shm::CheckpointCommit commit);

  /// Leaves the run in order; other ranks' finished work is not affected.
  [[nodiscard]] Result<void> detach();

 private:
  struct Impl;
  [[nodiscard]] static Result<std::unique_ptr<Device>> attach_once(const AttachOptions& options);
  explicit Device(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::client
