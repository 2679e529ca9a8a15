// One more engine thread: takes slices of active collectives beside the coordinator, serves its
// share of a ring's devices, and sleeps when there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/parker.hpp"
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
  /// `coordinator` is notified when the last slice of a task is done.
  explicit Helper(Parker& coordinator);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// False if the helper already has its fill; the task then simply has one thread fewer. On
  /// success the caller has counted one user in task.active.
  bool give(const HelperTask& task) noexcept;
  /// True if the next give() will succeed. Coordinator only.
  [[nodiscard]] bool has_room() const noexcept;
  [[nodiscard]] Parker& parker() noexcept { return parker_; }

 private:
  struct Queue;
  void loop() noexcept;

  Parker& coordinator_;
  Parker parker_;
  std::unique_ptr<Queue> queue_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Serves devices [first, end) of a ring once each; notifies `next` when a token crossed to its
/// devices and `coordinator` when a slice finished. True if anything moved.
bool serve_ring(Ring& ring, uint32_t ranks, uint32_t first, uint32_t end, Parker* next,
                Parker* coordinator) noexcept;

}  // namespace npu::daemon
