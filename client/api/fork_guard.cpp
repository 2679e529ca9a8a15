#include "client/api/fork_guard.hpp"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::client {

/// All guards of the process. fork() offers no other way to reach them.
struct ForkGuard::Registry {
  std::mutex mutex;
  std::vector<ForkGuard*> guards;

  // Left behind at exit on purpose: a fork during exit must still find it.
  static Registry& get() {
    static Registry* const registry = make();
    return *registry;
  }

 private:
  static Registry* make() {
    NPU_CHECK(::pthread_atfork(before, in_parent, in_child) == 0);
    return std::make_unique<Registry>().release();
  }
  // Held across the fork, so that the child finds the list whole and can unlock it.
  static void before() { get().mutex.lock(); }
  static void in_parent() { get().mutex.unlock(); }
  static void in_child() {
    for (const ForkGuard* guard : get().guards) guard->in_child_();
    get().guards.clear();
    get().mutex.unlock();
  }
};

ForkGuard::ForkGuard(std::function<void()> in_child) : in_child_(std::move(in_child)) {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  registry.guards.push_back(this);
}

ForkGuard::~ForkGuard() {
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.guards, this);
}

}  // namespace npu::client
