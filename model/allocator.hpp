// Where tensors live: model/ asks this interface for memory, so the same code trains in a device
// arena or on the heap. Memory is taken once, when a network is bound, and never given back
// piecewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shm/base/error.hpp"

namespace npu::model {

/// What a block of memory holds; an arena may place or account for it by purpose.
enum class Purpose : uint8_t {
  kParameters,
  kGradients,
  kMomentum,
  kBnBuffers,
  kActivations,
  kWorkspace,
};

/// "parameters", "gradients", ...
[[nodiscard]] std::string_view purpose_name(Purpose purpose) noexcept;

/// Source of tensor memory. The owner of the allocator owns the memory and outlives the network.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// `bytes` of zeroed memory at a multiple of `alignment` (a power of two).
  /// Errors: resource_exhausted (wanted, used, limit). Thread: the binding thread only.
  [[nodiscard]] virtual Result<std::byte*> allocate(uint64_t bytes, uint64_t alignment,
                                                    Purpose purpose) = 0;
};

/// Heap memory that lives as long as the allocator.
class HeapAllocator final : public Allocator {
 public:
  [[nodiscard]] Result<std::byte*> allocate(uint64_t bytes, uint64_t alignment,
                                            Purpose purpose) override;
  [[nodiscard]] uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  uint64_t allocated_bytes_ = 0;
};

}  // namespace npu::model
