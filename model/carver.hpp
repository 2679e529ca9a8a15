// Hands out aligned pieces of one block, or only counts when there is no block yet: planning and
// binding run the same code, so they cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::model {

class Carver {
 public:
  static constexpr uint64_t kAlignment = 64;

  explicit Carver(std::byte* base) noexcept : base_(base) {}

  /// `count` elements at the next multiple of 64 bytes; null while counting.
  template <typename T>
  [[nodiscard]] T* take(uint64_t count) noexcept {
    const uint64_t at = used_;
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  [[nodiscard]] uint64_t used_bytes() const noexcept { return used_; }

 private:
  std::byte* base_;
  uint64_t used_ = 0;
};

}  // namespace npu::model
