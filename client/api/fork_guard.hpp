// Tells what belongs to one process, in a child that it forks, that it is not the child's: threads
// and mapped devices stay with the parent, and a copied socket would keep a dead parent's
// connection open.
#pragma once

#include <functional>

namespace npu::client {

/// Thread: constructed and destroyed by any; the function runs in the child's only thread, before
/// fork() returns there. Children made by exec, vfork or posix_spawn have nothing to be told.
class ForkGuard {
 public:
  /// `in_child` may be called once; it must not lock what another thread could hold at the fork.
  explicit ForkGuard(std::function<void()> in_child);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  struct Registry;
  std::function<void()> in_child_;
};

}  // namespace npu::client
