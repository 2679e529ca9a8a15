// Heap source of tensor memory and the names of what memory is for.
#include "model/allocator.hpp"

#include <cstdlib>
#include <cstring>

namespace npu::model {

std::string_view purpose_name(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::kParameters:
      return "parameters";
    case Purpose::kGradients:
      return "gradients";
    case Purpose::kMomentum:
      return "momentum";
    case Purpose::kBnBuffers:
      return "bn_buffers";
    case Purpose::kActivations:
      return "activations";
    case Purpose::kWorkspace:
      return "workspace";
  }
  return "unknown";
}

void HeapAllocator::Free::operator()(std::byte* block) const noexcept { std::free(block); }

Result<std::byte*> HeapAllocator::allocate(uint64_t bytes, uint64_t alignment, Purpose purpose) {
  const uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* block =
      static_cast<std::byte*>(std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded));
  if (block == nullptr) {
    return fail(
        Code::kResourceExhausted,
        "allocate {} bytes for {} on the heap: {} bytes are in use and no more are to be had; "
        "reduce the batch size",
        bytes, purpose_name(purpose), allocated_bytes_);
  }
  std::memset(block, 0, rounded);
  blocks_.emplace_back(block);
  allocated_bytes_ += rounded;
  return block;
}

}  // namespace npu::model
