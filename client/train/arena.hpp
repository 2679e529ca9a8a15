// Hands out pieces of a device arena, in order and for good: everything a rank needs is placed
// before the first step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/allocator.hpp"

namespace npu::client {

/// Thread: one. The arena is zero when the daemon hands it out, as Allocator promises.
class ArenaAllocator final : public model::Allocator {
 public:
  explicit ArenaAllocator(std::span<std::byte> arena) noexcept : arena_(arena) {}

  [[nodiscard]] Result<std::byte*> allocate(uint64_t bytes, uint64_t alignment,
                                            model::Purpose purpose) override;

  /// `count` elements of T, 64-byte aligned. Errors: resource_exhausted.
  template <typename T>
  [[nodiscard]] Result<std::span<T>> take(uint64_t count) {
    NPU_TRY(std::byte* const at, allocate(count * sizeof(T), 64, model::Purpose::kWorkspace));
    return std::span<T>(reinterpret_cast<T*>(at), count);
  }
  [[nodiscard]] uint64_t offset_of(const void* p) const noexcept {
    return static_cast<uint64_t>(static_cast<const std::byte*>(p) - arena_.data());
  }
  [[nodiscard]] uint64_t used() const noexcept { return used_; }

 private:
  std::span<std::byte> arena_;
  uint64_t used_ = 0;
};

}  // namespace npu::client
