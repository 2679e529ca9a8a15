// Hands out pieces of one region of memory: device allocations of the C API, and the copies of
// buffers that lie outside the arena. Bookkeeping lives outside the region, which others may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "shm/base/error.hpp"

namespace npu::client {

/// First fit over an ordered free list; neighbours are merged. Thread: any; takes a lock and
/// allocates, so it is not for the collective path of buffers that lie in the arena.
class RegionAllocator {
 public:
  explicit RegionAllocator(std::span<std::byte> region) noexcept;

  /// `bytes` aligned to 128. Errors: resource_exhausted with wanted, free and largest piece.
  [[nodiscard]] Result<std::byte*> allocate(uint64_t bytes, const char* what);
  /// False if `p` is not an allocation of this region.
  bool release(const void* p) noexcept;
  [[nodiscard]] uint64_t free_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::span<std::byte> region_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace npu::client
