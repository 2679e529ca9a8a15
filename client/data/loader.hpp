// Prepares the next batches while the network works on the present one.
// Worker threads fill buffers that the caller owns (slots) and hand them over in plan order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/data/augment.hpp"
#include "client/data/dataset.hpp"
#include "client/data/sampler.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

/// A buffer of the caller's, big enough for one full batch: `images` takes batch x height x width x
/// channels floats, `labels` batch integers.
struct Slot {
  float* images = nullptr;
  int32_t* labels = nullptr;
};

/// A filled slot. n = 0 marks the end of the plan.
struct Batch {
  float* images = nullptr;
  int32_t* labels = nullptr;
  int n = 0;
  int64_t index = -1;  // within the plan
  int slot = -1;
};

struct LoaderOptions {
  int epoch = 0;
  int workers = 1;  // 0 = prepare in next(), no thread; more than slots are not started
};

/// Loader threads of one rank when the job asks for `workers`: shared out, rounded up (0 stays 0).
[[nodiscard]] constexpr int workers_per_rank(int workers, int world) noexcept {
  return (workers + world - 1) / world;
}

/// Invariants: (1) batches come in plan order and with the same bytes for any number of workers;
/// (2) a slot is written only between release() and the hand-over; (3) nobody spins: idle workers
/// and a waiting caller sleep. Thread: next() and release() from one thread. Ownership: dataset,
/// augmenter and slot memory must outlive it. The destructor stops at once, also in mid-epoch, and
/// joins.
class BatchLoader {
 public:
  /// Errors: invalid_argument without slots; resource_exhausted when no thread can be started.
  [[nodiscard]] static Result<std::unique_ptr<BatchLoader>> create(const Dataset& dataset,
                                                                   const Augmenter& augmenter,
                                                                   BatchPlan plan,
                                                                   std::span<const Slot> slots,
                                                                   const LoaderOptions& options);

  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next batch; blocks until it is ready. Release earlier ones first: with all slots out,
  /// nothing can become ready, which is failed_precondition. A bad sample is an error at its batch,
  /// and stays one.
  [[nodiscard]] Result<Batch> next();

  /// Gives the slot back for reuse.
  void release(const Batch& batch);

 private:
  struct Lane;

  BatchLoader(const Dataset& dataset, const Augmenter& augmenter, BatchPlan plan,
              std::span<const Slot> slots, const LoaderOptions& options);

  [[nodiscard]] Result<void> start_threads();
  void work(Lane& lane);
  [[nodiscard]] Result<void> fill(size_t batch, const Slot& slot) const;
  [[nodiscard]] Batch batch_in(size_t batch, int slot) const;

  const Dataset& dataset_;
  const Augmenter& augmenter_;
  BatchPlan plan_;
  std::vector<Slot> slots_;
  LoaderOptions options_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // batch k and slot s belong to lane k, s mod lanes
  std::vector<int> idle_;                     // without workers: free slots
  size_t next_ = 0;
};

}  // namespace npu::data
