// Decoded pictures in memory that the ranks of a launch share, kept as long as there is room. What
// is kept changes no bit: a part of a kept picture is what decoding that part gives.
//
// The memory is an anonymous file that the launcher makes and its ranks inherit, so nothing has a
// name; a rank that was started by hand has one of its own. Its contents are not trusted: an
// entry's header is copied and checked before a pixel is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/image/types.hpp"
#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"
#include "shm/segment.hpp"

namespace npu::data {

/// Slots for pictures and room for their pixels. Thread and process: any. Room is claimed by an
/// atomic counter, a slot is published once and never changes.
class PictureMemory {
 public:
  /// An empty file for open(), close-on-exec. Errors: resource_exhausted.
  [[nodiscard]] static Result<UniqueFd> create();

  /// Of `slots` pictures in `bytes`; pages are taken when they are used. `fd` is create()'s, which
  /// may hold pictures already, or -1: memory of this process alone, and so if the file was made
  /// for another set. Errors: resource_exhausted.
  [[nodiscard]] static Result<std::shared_ptr<PictureMemory>> open(int fd, size_t slots,
                                                                   uint64_t bytes);

  struct Picture {
    image::Size size;
    int channels = 0;
    const uint8_t* pixels = nullptr;  // rows without gaps, as long as the memory lives
  };

  [[nodiscard]] std::optional<Picture> find(size_t slot) const noexcept;
  /// Whether keep() of a picture of this size might succeed.
  [[nodiscard]] bool has_room(image::Size size) const noexcept;
  /// Copies a whole picture, unless there is no room or somebody was first.
  void keep(size_t slot, const image::Image& whole) noexcept;

 private:
  PictureMemory(UniqueFd fd, shm::Mapping mapping, size_t slots) noexcept;

  [[nodiscard]] std::optional<uint64_t> claim(uint64_t bytes) noexcept;

  UniqueFd fd_;
  shm::Mapping mapping_;
  size_t slots_;
  uint64_t first_;  // offset of the first picture; whatever is below is not one
};

/// The slots of one set.
class PictureCache {
 public:
  PictureCache(std::shared_ptr<PictureMemory> memory, size_t first_slot) noexcept
      : memory_(std::move(memory)), first_slot_(first_slot) {}

  [[nodiscard]] std::optional<PictureMemory::Picture> find(size_t i) const noexcept {
    return memory_->find(first_slot_ + i);
  }
  [[nodiscard]] bool has_room(image::Size size) const noexcept { return memory_->has_room(size); }
  void keep(size_t i, const image::Image& whole) const noexcept {
    memory_->keep(first_slot_ + i, whole);
  }

 private:
  std::shared_ptr<PictureMemory> memory_;
  size_t first_slot_;
};

}  // namespace npu::data
