// A collective that is being executed: private copies of everything the engine threads need, shared
// by them while slices are left. Lives in a pool; recycled when the last thread has let go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "shm/layout_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

/// One slice is this many bytes of one rank's buffer: 8 ranks x 64 KiB stay within half of a 1 MiB
/// L2.
inline constexpr uint64_t kSliceBytes = 64 * 1024;

struct Active {
  shm::Op op = shm::Op::kNone;
  shm::Algorithm algorithm = shm::Algorithm::kDirect;
  DType dtype = DType::kFloat32;
  uint32_t ranks = 0;
  uint32_t root = 0;
  uint64_t count = 0;
  uint64_t element_bytes = 4;
  uint64_t slice_elements = 0;
  uint64_t parts = 1;        // what the operation consists of: per-rank parts, or pairs of ranks
  uint64_t part_slices = 0;  // slices of one part
  uint64_t slices = 0;
  double scale = 1.0;
  const ReduceKernel* kernel = nullptr;
  std::array<const std::byte*, shm::kMaxDevices> send{};
  std::array<std::byte*, shm::kMaxDevices> recv{};
  double* block_sums = nullptr;  // one a block of kBlockElements, or null

  // Written by the engine threads. next: claims a slice; done: release after its stores; flags: bit
  // 0 an input is not finite, bit 1 a result is not finite; users: helper threads that may still
  // look at this object.
  alignas(shm::kLineBytes) std::atomic<uint64_t> next{0};
  alignas(shm::kLineBytes) std::atomic<uint64_t> done{0};
  std::atomic<uint32_t> flags{0};
  alignas(shm::kLineBytes) std::atomic<uint32_t> users{0};

  [[nodiscard]] bool finished() const noexcept {
    return done.load(std::memory_order_acquire) == slices;  // pairs with run_slices' release
  }
  [[nodiscard]] uint64_t part_of(uint64_t slice) const noexcept { return slice / part_slices; }
  /// First element of the slice, counted within its part.
  [[nodiscard]] uint64_t slice_begin(uint64_t slice) const noexcept {
    return slice % part_slices * slice_elements;
  }
  [[nodiscard]] uint64_t slice_count(uint64_t slice) const noexcept {
    const uint64_t begin = slice_begin(slice);
    return begin + slice_elements < count ? slice_elements : count - begin;
  }
};

/// `direct`: claims one slice and executes it in one pass over all ranks. False when none is left.
/// Thread: any number at once. Cost: 2NS bytes of memory traffic for an all-reduce, S read and
/// (N-1)S written for a broadcast.
bool run_one_slice(Active& active) noexcept;

/// By-products of a whole payload that travelled in the entries (at most kInlineBytes).
void fold_inline(const Active& active, std::byte* result, ByProducts& products) noexcept;

}  // namespace npu::daemon
