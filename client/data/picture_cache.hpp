// Decoded pictures of one set, kept as long as there is room. What is kept changes no bit: a part
// of a kept picture is what decoding that part gives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/image/types.hpp"

namespace npu::data {

/// Bytes that may still be spent.
class CacheBudget {
 public:
  explicit CacheBudget(uint64_t bytes) noexcept : left_(bytes) {}
  [[nodiscard]] bool take(uint64_t bytes) noexcept;
  [[nodiscard]] bool allows(uint64_t bytes) const noexcept {
    return bytes <= left_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> left_;
};

/// Thread: any; a picture is written by one thread and never changes after.
class PictureCache {
 public:
  PictureCache(size_t pictures, std::shared_ptr<CacheBudget> budget);

  /// Null when picture `i` is not there.
  [[nodiscard]] const image::Image* find(size_t i) const noexcept;
  /// Whether keep() of a picture of this size might succeed.
  [[nodiscard]] bool has_room(image::Size size) const noexcept;
  /// Copies a whole picture, unless there is no room or another thread was first.
  void keep(size_t i, const image::Image& whole);

 private:
  enum State : uint8_t { kAbsent, kWriting, kThere };

  std::shared_ptr<CacheBudget> budget_;
  std::vector<image::Image> pictures_;
  std::vector<std::atomic<uint8_t>> states_;  // kThere is published with release
};

}  // namespace npu::data
