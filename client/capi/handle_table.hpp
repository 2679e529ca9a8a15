// Handles of the C interface: numbers in a pointer's clothes, never used twice, so that a handle
// that was destroyed is told from one that lives.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace npu::capi {

/// Thread: any. What find() returns lives as long as the caller holds it.
template <typename T>
class HandleTable {
 public:
  /// `kind`: below 16, told apart from the handles of other tables.
  explicit HandleTable(uintptr_t kind) noexcept : next_(kStep + kind) {}

  [[nodiscard]] uintptr_t insert(std::shared_ptr<T> object) {
    const std::unique_lock lock(mutex_);
    const uintptr_t handle = next_;
    objects_.emplace(handle, std::move(object));
    next_ += kStep;
    return handle;
  }
  /// Null if the handle is not one.
  [[nodiscard]] std::shared_ptr<T> find(uintptr_t handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  /// As find(); the handle is gone afterwards.
  [[nodiscard]] std::shared_ptr<T> remove(uintptr_t handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  [[nodiscard]] std::vector<std::shared_ptr<T>> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> objects;
    for (const auto& [handle, object] : objects_) objects.push_back(object);
    return objects;
  }

 private:
  static constexpr uintptr_t kStep = 16;
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
  uintptr_t next_;
};

}  // namespace npu::capi
