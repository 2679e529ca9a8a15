#include "client/train/arena.hpp"

#include "shm/base/units.hpp"

namespace npu::client {

Result<std::byte*> ArenaAllocator::allocate(uint64_t bytes, uint64_t alignment,
                                            model::Purpose purpose) {
  const uint64_t begin = (used_ + alignment - 1) / alignment * alignment;
  if (bytes > arena_.size() || begin > arena_.size() - bytes) {
    return fail(Code::kResourceExhausted, "place {} of {} in the device arena: {} of {} are used",
                format_bytes(bytes), model::purpose_name(purpose), format_bytes(used_),
                format_bytes(arena_.size()));
  }
  used_ = begin + bytes;
  return arena_.data() + begin;
}

}  // namespace npu::client
