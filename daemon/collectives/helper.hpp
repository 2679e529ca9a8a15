// One more engine thread: takes slices of active collectives beside the coordinator, serves its
// share of a ring's devices, and sleeps when there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/parker.hpp"
#include "daemon/collectives/pulse.hpp"
#include "daemon/collectives/ring.hpp"

namespace npu::daemon {

/// What a helper is asked to take part in. `ring` null: `direct` slices.
struct HelperTask {
  Active* active = nullptr;
  Ring* ring = nullptr;
  uint32_t first_device = 0, end_device = 0;  // ring: the devices this thread serves
  Parker* next = nullptr;                     // ring: owner of end_device
};

/// Thread: give() by the coordinator only. The destructor stops and joins; tasks in progress end at
/// a slice border.
class Helper {
 public:
  /// `coordinator` is notified when the last slice of a task is done. `thread`: this one's number;
  /// the coordinator is 0.
  explicit Helper(Parker& coordinator, uint32_t thread = 1);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// False if the helper already has its fill; the task then simply has one thread fewer. On
  /// success the caller has counted one user in task.active.
  bool give(const HelperTask& task) noexcept;
  /// True if the next give() will succeed. Coordinator only.
  [[nodiscard]] bool has_room() const noexcept;
  [[nodiscard]] Parker& parker() noexcept { return parker_; }
  [[nodiscard]] const Pulse& pulse() const noexcept { return pulse_; }

 private:
  struct Queue;
  void loop() noexcept;

  Parker& coordinator_;
  uint32_t number_;
  Parker parker_;
  Pulse pulse_{"npud-engine"};
  std::unique_ptr<Queue> queue_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// How many helpers a large operation is shared with. Engine threads that use up every core keep the
/// ranks of another run from coming with theirs (of 8 bytes, tens of milliseconds late on two cores),
/// so with several runs one core is left to ranks.
[[nodiscard]] constexpr size_t helpers_to_share(size_t runs, size_t helpers, size_t cores) noexcept {
  const size_t most = cores > 2 ? cores - 2 : 0;  // the coordinator has one of the others
  return runs > 1 && helpers > most ? most : helpers;
}

/// Asks every helper that has room to take slices of a `direct` operation.
void share_slices(Active& active, std::span<const std::unique_ptr<Helper>> helpers) noexcept;

/// Divides the devices of a ring among the coordinator and as many helpers as have room for all of
/// them to take part, once and for all of this operation; sets active.ring_owners.
void share_ring(Active& active, Ring& ring, std::span<const std::unique_ptr<Helper>> helpers,
                Parker& coordinator) noexcept;

/// The coordinator's round of a ring: injects, serves its own devices, reaps. True if anything
/// moved.
bool step_ring(Active& active, Ring& ring, std::span<const std::unique_ptr<Helper>> helpers,
               bool inject) noexcept;

/// Serves devices [first, end) of a ring once each; notifies `next` when a token crossed to its
/// devices and `coordinator` when a slice finished. True if anything moved.
bool serve_ring(Ring& ring, uint32_t ranks, uint32_t first, uint32_t end, Parker* next,
                Parker* coordinator, uint32_t thread = 0) noexcept;

}  // namespace npu::daemon
