// What all communicators of one device share: its submission ring, its completions, and the news
// that the run is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "client/api/collective_env.hpp"
#include "client/api/region_allocator.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_client.hpp"

namespace npu::client {

/// Where a rank's pages lie: set up by Device.
struct DevicePlace {
  shm::SubmitPage* submit = nullptr;
  const shm::StatusPage* status = nullptr;
  const shm::RunBoard* board = nullptr;
  shm::RunHints* hints = nullptr;
  std::span<std::byte> arena;  // all of it, as the daemon counts offsets
  std::span<std::byte>
      staging;        // the part of it where copies of outside buffers live; may be empty
  CollectiveEnv env;  // defaults of operations
  uint64_t generation = 0;
  uint32_t rank = 0, world = 1;
  std::function<Error()> failure;             // what went wrong when `failed` is set
  const std::atomic<bool>* failed = nullptr;  // set by the device's reader
};

/// Thread: any. Nothing but staged copies allocates or locks.
class DeviceQueue {
 public:
  explicit DeviceQueue(DevicePlace place);
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  /// Publishes under consecutive tickets, the first of which it returns. Sleeps while the ring is
  /// full and another thread is about to make room. Errors: resource_exhausted (the caller holds
  /// what would have to be waited for); the run's.
  [[nodiscard]] Result<uint64_t> submit(std::span<const shm::Request> requests,
                                        const shm::Arrival& arrival, const char* what);

  /// Sleeps until the ticket is complete and gives its slot back. Empty when `deadline` passed: the
  /// ticket is kept. Errors: the operation's, the run's.
  [[nodiscard]] Result<std::optional<shm::Outcome>> wait(uint64_t ticket, Deadline deadline);

  /// This process is a fork of the one that the device belongs to: from here on every call fails,
  /// and none touches the pages, which are not mapped here. Called before the child's other code
  /// runs.
  void orphan() noexcept { orphaned_ = true; }
  [[nodiscard]] bool orphaned() const noexcept { return orphaned_; }

  /// True if wait() would not sleep.
  [[nodiscard]] bool ready(uint64_t ticket) const noexcept;
  void abandon(uint64_t ticket) noexcept { submitter_.abandon(ticket); }

  /// Why the run is over, if it is.
  [[nodiscard]] std::optional<Error> failure() const;
  [[nodiscard]] bool over() const noexcept;

  [[nodiscard]] const DevicePlace& place() const noexcept { return place_; }
  [[nodiscard]] RegionAllocator& staging() noexcept { return staging_; }
  void count_staged() noexcept {
    place_.submit->rank.staged_copies.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] Error run_error() const;
  [[nodiscard]] bool sleep_until(uint64_t ticket, Deadline deadline,
                                 shm::Outcome& outcome) noexcept;

  DevicePlace place_;
  bool orphaned_ = false;
  shm::Submitter submitter_;
  RegionAllocator staging_;
};

}  // namespace npu::client
