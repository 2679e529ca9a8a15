#include "client/api/region_allocator.hpp"

#include <algorithm>
#include <iterator>

#include "shm/base/units.hpp"
#include "shm/layout_data.hpp"

namespace npu::client {

RegionAllocator::RegionAllocator(std::span<std::byte> region) noexcept : region_(region) {
  if (!region.empty()) free_[0] = region.size();
}

Result<std::byte*> RegionAllocator::allocate(uint64_t bytes, const char* what) {
  const std::lock_guard lock(mutex_);
  if (bytes <= region_.size()) {  // so that rounding up cannot overflow
    const uint64_t size =
        (std::max<uint64_t>(bytes, 1) + shm::kLineBytes - 1) / shm::kLineBytes * shm::kLineBytes;
    const auto fit = std::find_if(free_.begin(), free_.end(),
                                  [size](const auto& piece) { return piece.second >= size; });
    if (fit != free_.end()) {
      const auto [offset, available] = *fit;
      free_.erase(fit);
      if (available > size) free_[offset + size] = available - size;
      used_[offset] = size;
      return region_.data() + offset;
    }
  }
  uint64_t total = 0, largest = 0;
  for (const auto& [offset, size] : free_) {
    total += size;
    largest = std::max(largest, size);
  }
  return fail(Code::kResourceExhausted, "{}: {} wanted, {} of {} are free, {} in one piece", what,
              format_bytes(bytes), format_bytes(total), format_bytes(region_.size()),
              format_bytes(largest));
}

bool RegionAllocator::release(const void* p) noexcept {
  const std::lock_guard lock(mutex_);
  const auto* at = static_cast<const std::byte*>(p);
  if (at < region_.data() || at >= region_.data() + region_.size()) return false;
  const auto found = used_.find(static_cast<uint64_t>(at - region_.data()));
  if (found == used_.end()) return false;
  auto [offset, size] = *found;
  used_.erase(found);
  const auto after = free_.find(offset + size);
  if (after != free_.end()) {
    size += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    std::prev(next)->second += size;
  } else {
    free_[offset] = size;
  }
  return true;
}

uint64_t RegionAllocator::free_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [offset, size] : free_) total += size;
  return total;
}

}  // namespace npu::client
