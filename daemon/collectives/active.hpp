// An operation that is being executed: private copies of everything the engine threads need, shared
// by them while slices are left. Lives in a pool; recycled when the last thread has let go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "daemon/collectives/kernels/reduce_kernels.hpp"
#include "shm/journal_data.hpp"
#include "shm/layout_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

/// One slice is at most this many bytes of one rank's buffer: 8 ranks x 64 KiB stay within half of
/// a 1 MiB L2.
inline constexpr uint64_t kSliceBytes = 64 * 1024;

/// Where threads note how far the slices of a reduction are that overwrites its inputs
/// (shm/journal_data.hpp). Empty where the run has no journal or the inputs stay.
struct SliceJournal {
  std::atomic<uint8_t>* marks = nullptr;  // SliceMark, one a slice
  std::byte* scratch = nullptr;           // kSliceBytes a thread; ring
  shm::HoldRecord* holds = nullptr;       // one a thread; direct
  std::atomic<uint32_t>* flags = nullptr;
  const ReduceKernel* identity = nullptr;  // with redo: of one rank, to sum squares again
  bool redo = false;                       // some slices were done by the daemon before
};

/// Ranks are those of the communicator. A part is what one rank contributes or receives; for
/// all-to-all, what one sends to another (part = from * ranks + to).
struct Active {
  shm::Op op = shm::Op::kNone;
  shm::Algorithm algorithm = shm::Algorithm::kDirect;
  DType dtype = DType::kFloat32;
  uint32_t ranks = 0;
  uint32_t root = 0;
  uint64_t count = 0;  // elements of a part, if all have the same
  uint64_t element_bytes = 4;
  uint64_t slice_elements = 0;
  uint32_t parts = 1;
  std::array<uint64_t, shm::kMaxDevices * shm::kMaxDevices + 1> part_first{};  // slice; and the end
  uint64_t slices = 0;
  double scale = 1.0;
  bool nontemporal = false;  // results go around the caches
  const ReduceKernel* kernel = nullptr;
  std::array<const std::byte*, shm::kMaxDevices> send{};
  std::array<std::byte*, shm::kMaxDevices> recv{};
  std::array<const shm::VectorArgs*, shm::kMaxDevices> vectors{};  // private copies, or null
  double* block_sums = nullptr;  // one a block of kBlockElements, or null
  uint32_t ring_owners = 1;      // threads that share a ring's devices
  SliceJournal journal;

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
  [[nodiscard]] uint64_t part_count(uint32_t part) const noexcept;
  /// Divides all parts into slices; everything above is filled. Sets part_first and slices.
  void cut() noexcept;
};

/// A slice: which part, and which elements of it.
struct Slice {
  uint32_t part;
  uint64_t begin, count;
};
[[nodiscard]] Slice slice_at(const Active& active, uint64_t slice) noexcept;

using ResultPlaces = std::array<std::byte*, shm::kMaxDevices>;
/// Where the result of a reduction's slice goes; returns how many places there are.
[[nodiscard]] uint32_t result_places(const Active& active, const Slice& slice,
                                     ResultPlaces& places) noexcept;

/// Folds what is behind the first `first` elements of a slice into the places of its result, by way
/// of the thread's hold record if the reduction has a journal.
void fold_part(Active& active, const Slice& slice, uint64_t first, uint32_t thread) noexcept;

/// `direct`: claims one slice and executes it in one pass over all ranks. False when none is left.
/// `thread` is the caller's number among the engine's threads, below 8, the coordinator's 0.
/// Thread: any number at once. Cost: 2NS bytes of memory traffic for an all-reduce, S read and
/// (N-1)S written for a broadcast.
bool run_one_slice(Active& active, uint32_t thread = 0) noexcept;

/// Bytes that instructions load and store for it, all ranks together.
[[nodiscard]] uint64_t moved_bytes(const Active& active) noexcept;

/// By-products of a whole payload that travelled in the entries (at most kInlineBytes).
void fold_inline(const Active& active, std::byte* result, ByProducts& products) noexcept;

}  // namespace npu::daemon
