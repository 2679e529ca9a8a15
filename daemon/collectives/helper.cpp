#include "daemon/collectives/helper.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <boost/lockfree/spsc_queue.hpp>

#include "shm/base/error.hpp"

namespace npu::daemon {

struct Helper::Queue {
  boost::lockfree::spsc_queue<HelperTask, boost::lockfree::capacity<16>> tasks;
};

Helper::Helper(Parker& coordinator, uint32_t thread)
    : coordinator_(coordinator),
      number_(thread),
      queue_(std::make_unique<Queue>()),
      thread_([this] { loop(); }) {}

Helper::~Helper() {
  stop_.store(true, std::memory_order_release);
  parker_.notify();
  thread_.join();
}

bool Helper::give(const HelperTask& task) noexcept {
  if (!queue_->tasks.push(task)) return false;
  parker_.notify();
  return true;
}

bool Helper::has_room() const noexcept { return queue_->tasks.write_available() != 0; }

namespace {

/// Counts one more user and hands the task over; false if the helper is full.
bool give_task(Helper& helper, const HelperTask& task) noexcept {
  // relaxed: the queue's release publishes it with the task.
  task.active->users.fetch_add(1, std::memory_order_relaxed);
  if (helper.give(task)) return true;
  task.active->users.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

void share_slices(Active& a, std::span<const std::unique_ptr<Helper>> helpers) noexcept {
  for (const auto& helper : helpers) (void)give_task(*helper, {.active = &a});
}

void share_ring(Active& a, Ring& ring, std::span<const std::unique_ptr<Helper>> helpers,
                Parker& coordinator) noexcept {
  a.ring_owners = 1;
  const bool room = std::all_of(helpers.begin(), helpers.end(),
                                [](const auto& helper) { return helper->has_room(); });
  if (!room) return;
  a.ring_owners = std::min<uint32_t>(a.ranks, 1 + static_cast<uint32_t>(helpers.size()));
  for (uint32_t t = 1; t < a.ring_owners; ++t) {
    const HelperTask task{.active = &a,
                          .ring = &ring,
                          .first_device = t * a.ranks / a.ring_owners,
                          .end_device = (t + 1) * a.ranks / a.ring_owners,
                          .next = t + 1 < a.ring_owners ? &helpers[t]->parker() : &coordinator};
    NPU_CHECK(give_task(*helpers[t - 1], task));
  }
}

bool step_ring(Active& a, Ring& ring, std::span<const std::unique_ptr<Helper>> helpers,
               bool inject) noexcept {
  bool moved = false;
  while (inject && ring.inject(a)) moved = true;
  Parker* next = a.ring_owners > 1 ? &helpers[0]->parker() : nullptr;
  moved |= serve_ring(ring, a.ranks, 0, a.ranks / a.ring_owners, next, nullptr);
  return ring.reap() || moved;
}

bool serve_ring(Ring& ring, uint32_t ranks, uint32_t first, uint32_t end, Parker* next,
                Parker* coordinator, uint32_t thread) noexcept {
  bool moved = false;
  for (uint32_t d = first; d < end; ++d) {
    if (!ring.serve(d, thread)) continue;
    moved = true;
    if (d + 1 == end && next != nullptr) next->notify();
    if (d + 2 == ranks && coordinator != nullptr) coordinator->notify();
  }
  return moved;
}

namespace {

/// One step of a task; false when this thread has nothing to do for it now.
bool advance(const HelperTask& task, Parker& coordinator, uint32_t thread) noexcept {
  if (task.ring == nullptr) return run_one_slice(*task.active, thread);
  return serve_ring(*task.ring, task.active->ranks, task.first_device, task.end_device, task.next,
                    &coordinator, thread);
}

/// True when this thread is not needed any more.
bool over(const HelperTask& task) noexcept {
  if (task.ring != nullptr) return task.active->finished();
  return task.active->next.load(std::memory_order_relaxed) >= task.active->slices;
}

bool can_advance(const HelperTask& task) noexcept {
  if (task.ring == nullptr || task.active->finished()) return true;
  for (uint32_t d = task.first_device; d < task.end_device; ++d) {
    if (task.ring->has_work(d)) return true;
  }
  return false;
}

}  // namespace

void Helper::loop() noexcept {
  ::pthread_setname_np(::pthread_self(), "npud-engine");
  std::array<HelperTask, 16> tasks;
  size_t n = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    pulse_.beat();
    while (n < tasks.size() && queue_->tasks.pop(tasks[n])) ++n;
    bool moved = false;
    for (size_t i = 0; i < n;) {
      moved |= advance(tasks[i], coordinator_, number_);
      if (over(tasks[i])) {
        // Told after letting go: the coordinator may wait for a free place in its pool.
        tasks[i].active->users.fetch_sub(1, std::memory_order_acq_rel);
        coordinator_.notify();
        tasks[i] = tasks[--n];
        moved = true;
      } else {
        ++i;
      }
    }
    if (moved) continue;
    const uint32_t ticket = parker_.prepare();
    bool work = stop_.load(std::memory_order_acquire) || queue_->tasks.read_available() != 0;
    for (size_t i = 0; i < n && !work; ++i) work = can_advance(tasks[i]);
    if (work) {
      parker_.cancel();
    } else {
      pulse_.rest();
      parker_.sleep(ticket, shm::kWaitSlice * 10);
    }
  }
}

}  // namespace npu::daemon
