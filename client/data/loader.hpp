// Prepares the next batches while the network works on the present one.
// Worker threads fill buffers that the caller owns (slots); batches come out in plan order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "client/data/sampler.hpp"
#include "client/data/source.hpp"
#include "shm/base/error.hpp"

namespace npu::data {

/// A buffer of the caller's, big enough for one full batch: `images` takes batch x height x width x
/// channels floats, `labels` batch integers.
struct Slot {
  float* images = nullptr;
  int32_t* labels = nullptr;
};

/// A filled slot. index = -1 marks the end of the pass.
struct Batch {
  float* images = nullptr;
  int32_t* labels = nullptr;
  int n = 0;    // images; fewer than planned, even 0, if some were left out
  int bad = 0;  // samples that could not be read: others stand in, or they were left out
  int64_t index = -1;
  int slot = -1;
};

/// What is to be read: which samples of a source in which batches, as they look in an epoch.
struct Pass {
  const SampleSource* source = nullptr;
  BatchPlan plan;
  int epoch = 0;

  bool operator==(const Pass&) const = default;
};

struct LoaderOptions {
  int workers = 1;  // 0 = prepare in next(), no thread, nothing ahead
};

/// Loader threads of one rank when the job asks for `workers`: shared out, rounded up (0 stays 0).
[[nodiscard]] constexpr int workers_per_rank(int workers, int world) noexcept {
  return (workers + world - 1) / world;
}

/// Processors that this process may run on.
[[nodiscard]] int available_cores() noexcept;

/// Invariants: (1) batches come in plan order and with the same bytes for any number of workers and
/// slots; (2) a slot is written only between release() and the hand-over; (3) nobody spins: idle
/// workers and a waiting caller sleep; (4) after the first batches no memory is taken but by
/// begin() and announce(). Thread: all calls from one thread. Ownership: sources and slot memory
/// must outlive it. The destructor stops at once, also in mid-pass, and joins.
class BatchLoader {
 public:
  /// Errors: invalid_argument without slots; resource_exhausted when no thread can be started.
  [[nodiscard]] static Result<std::unique_ptr<BatchLoader>> create(std::span<const Slot> slots,
                                                                   const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The batches that follow come from `pass`. What was prepared for the same announced pass is
  /// used; all else that was prepared is dropped. Also clears an error.
  void begin(Pass pass);

  /// Says what begin() will most likely be called with next: prepared as soon as all batches of the
  /// present pass are under way and slots are free.
  void announce(Pass pass);

  /// The next batch; blocks until it is ready. Release earlier ones first: with all slots out,
  /// nothing can become ready, which is failed_precondition. A bad sample is an error at its batch,
  /// and stays one.
  [[nodiscard]] Result<Batch> next();

  /// Gives the slot back for reuse.
  void release(const Batch& batch);

  /// Sum of `bad` over all batches that next() returned.
  [[nodiscard]] int64_t bad_samples() const noexcept;

 private:
  struct Impl;
  explicit BatchLoader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::data
