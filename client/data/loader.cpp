// One lane a worker: two lock-free queues (free slots in, filled slots out) and a condition
// variable that is only touched to sleep and to wake.
#include "client/data/loader.hpp"

#include <pthread.h>

#include <algorithm>
#include <boost/lockfree/spsc_queue.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace npu::data {

struct BatchLoader::Lane {
  struct Filled {
    int slot = -1;
    bool failed = false;  // then `error` says why; the lane's last item
  };

  Lane(size_t lane_index, size_t slots) : index(lane_index), free(slots), filled(slots) {}

  size_t index;
  boost::lockfree::spsc_queue<int> free;       // caller to worker
  boost::lockfree::spsc_queue<Filled> filled;  // worker to caller
  Error error;                                 // written before the failed item is pushed
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;  // under mutex
  std::thread thread;
  int out = 0;                  // slots the caller holds; only the caller touches this and `sticky`
  std::optional<Error> sticky;  // once the lane failed

  // The empty section orders the push before a sleeper's check: a wake-up cannot fall between the
  // two.
  void wake() {
    { const std::lock_guard lock(mutex); }
    changed.notify_one();
  }
};

Result<std::unique_ptr<BatchLoader>> BatchLoader::create(const Dataset& dataset,
                                                         const Augmenter& augmenter, BatchPlan plan,
                                                         std::span<const Slot> slots,
                                                         const LoaderOptions& options) {
  if (slots.empty() || options.workers < 0 || plan.batch == 0) {
    return fail(
        Code::kInvalidArgument,
        "start the batch loader: {} slots, {} workers, batches of {}; expected at least one slot",
        slots.size(), options.workers, plan.batch);
  }
  NPU_CHECK(dataset.shape() == augmenter.shape());
  std::unique_ptr<BatchLoader> loader(
      new BatchLoader(dataset, augmenter, std::move(plan), slots, options));
  NPU_TRY_VOID(loader->start_threads());
  return loader;
}

BatchLoader::BatchLoader(const Dataset& dataset, const Augmenter& augmenter, BatchPlan plan,
                         std::span<const Slot> slots, const LoaderOptions& options)
    : dataset_(dataset),
      augmenter_(augmenter),
      plan_(std::move(plan)),
      slots_(slots.begin(), slots.end()),
      options_(options) {
  const size_t lanes =
      std::min({static_cast<size_t>(options.workers), slots_.size(), plan_.batches()});
  for (size_t i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(i, slots_.size()));
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (lanes == 0) {
      idle_.push_back(static_cast<int>(s));
    } else {
      lanes_[s % lanes]->free.push(static_cast<int>(s));
    }
  }
}

Result<void> BatchLoader::start_threads() {
  // Signals are the main thread's business: a worker that took SIGTERM would leave it asleep.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> result;
  for (const auto& lane : lanes_) {
    try {
      lane->thread = std::thread([this, &lane = *lane] { work(lane); });
    } catch (const std::system_error& e) {
      result =
          fail(Code::kResourceExhausted, "start loader thread {} of {}: {}; lower data.workers",
               lane->index + 1, lanes_.size(), e.what());
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

BatchLoader::~BatchLoader() {
  for (const auto& lane : lanes_) {
    {
      const std::lock_guard lock(lane->mutex);
      lane->stopping = true;
    }
    lane->changed.notify_all();
  }
  for (const auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void BatchLoader::work(Lane& lane) {
  pthread_setname_np(pthread_self(), "npu-loader");
  for (size_t batch = lane.index; batch < plan_.batches(); batch += lanes_.size()) {
    {
      std::unique_lock lock(lane.mutex);
      lane.changed.wait(lock, [&] { return lane.stopping || lane.free.read_available() > 0; });
      if (lane.stopping) return;
    }
    int slot = -1;
    NPU_CHECK(lane.free.pop(slot));
    auto done = fill(batch, slots_[static_cast<size_t>(slot)]);
    if (!done) lane.error = std::move(done.error());
    NPU_CHECK(lane.filled.push({slot, !done.has_value()}));
    lane.wake();
    if (!done) return;
  }
}

Result<void> BatchLoader::fill(size_t batch, const Slot& slot) const {
  const std::span<const uint32_t> samples = plan_.of(batch);
  const size_t elements = dataset_.shape().elements();
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t sample = samples[i];
    if (sample >= dataset_.size()) {
      return fail(Code::kFailedPrecondition,
                  "load batch {}: sample {} is outside the {} of the set", batch, sample,
                  dataset_.size());
    }
    augmenter_.apply(dataset_.pixels(sample), options_.epoch, sample, slot.images + i * elements);
    slot.labels[i] = dataset_.label(sample);
  }
  return {};
}

Batch BatchLoader::batch_in(size_t batch, int slot) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  return Batch{.images = s.images,
               .labels = s.labels,
               .n = static_cast<int>(plan_.of(batch).size()),
               .index = static_cast<int64_t>(batch),
               .slot = slot};
}

Result<Batch> BatchLoader::next() {
  if (next_ >= plan_.batches()) return Batch{};
  if (lanes_.empty()) {
    if (idle_.empty()) {
      return fail(Code::kFailedPrecondition, "load batch {}: all {} slots are in use, release one",
                  next_, slots_.size());
    }
    const int slot = idle_.back();
    NPU_TRY_VOID(fill(next_, slots_[static_cast<size_t>(slot)]));
    idle_.pop_back();
    return batch_in(next_++, slot);
  }
  Lane& lane = *lanes_[next_ % lanes_.size()];
  if (lane.sticky) return tl::make_unexpected(*lane.sticky);
  const size_t own = (slots_.size() - lane.index + lanes_.size() - 1) / lanes_.size();
  if (static_cast<size_t>(lane.out) == own) {
    return fail(Code::kFailedPrecondition,
                "load batch {}: its worker's {} slots are in use, release one", next_, own);
  }
  Lane::Filled item;
  if (!lane.filled.pop(item)) {
    std::unique_lock lock(lane.mutex);
    lane.changed.wait(lock, [&] { return lane.filled.read_available() > 0; });
    NPU_CHECK(lane.filled.pop(item));
  }
  if (item.failed) {
    lane.sticky = lane.error;
    return tl::make_unexpected(*lane.sticky);
  }
  ++lane.out;
  return batch_in(next_++, item.slot);
}

void BatchLoader::release(const Batch& batch) {
  if (batch.slot < 0) return;  // the end marker
  NPU_CHECK(static_cast<size_t>(batch.slot) < slots_.size());
  if (lanes_.empty()) {
    idle_.push_back(batch.slot);
    return;
  }
  Lane& lane = *lanes_[static_cast<size_t>(batch.slot) % lanes_.size()];
  --lane.out;
  NPU_CHECK(lane.free.push(batch.slot));
  lane.wake();
}

}  // namespace npu::data
