// The caller's thread assigns slots to batches and cuts them into chunks of samples; workers take
// chunks from a bounded lock-free queue and count down what a slot still misses. The mutex is only
// touched to sleep, to wake, and for errors.
#include "client/data/loader.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/circular_buffer.hpp>
#include <boost/lockfree/queue.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace npu::data {
namespace {

constexpr size_t kMaxChunks = 32;       // of one batch
constexpr size_t kChunksPerWorker = 4;  // so that one slow image does not hold up a whole batch
constexpr int32_t kLeftOutLabel = -1;

struct Task {
  uint32_t slot = 0;
  uint32_t first = 0, count = 0;  // samples of the batch
};

/// A thread's readers, one a source; a job has two.
class Readers {
 public:
  SampleReader& of(const SampleSource* source) {
    for (const auto& [known, reader] : readers_) {
      if (known == source) return *reader;
    }
    readers_.emplace_back(source, source->reader());
    return *readers_.back().second;
  }

 private:
  std::vector<std::pair<const SampleSource*, std::unique_ptr<SampleReader>>> readers_;
};

enum class Use : uint8_t { kFree, kFilling, kOut };

// Everything but the atomics is written by the caller's thread before the tasks are pushed.
struct SlotState {
  Slot slot;
  Use use = Use::kFree;
  const Pass* pass = nullptr;
  size_t batch = 0;
  std::atomic<uint32_t> missing{0};  // chunks; the last one to count down publishes the slot
  std::atomic<uint32_t> bad{0};
  std::atomic<bool> left_out{false};
  size_t error_at = SIZE_MAX;  // the first bad sample's place in the batch; under the mutex
  std::optional<Error> error;
};

}  // namespace

int available_cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

struct BatchLoader::Impl {
  Impl(std::span<const Slot> given, int worker_count)
      : slots(given.size()), order(given.size()), tasks(given.size() * kMaxChunks) {
    for (size_t i = 0; i < given.size(); ++i) slots[i].slot = given[i];
    const auto workers = static_cast<size_t>(worker_count);
    chunks = workers <= 1 ? 1 : std::min(kMaxChunks, workers * kChunksPerWorker);
  }

  // ---- any thread
  void run(const Task& task, Readers& readers);
  void record(SlotState& state, size_t at, Error error);
  void finish(SlotState& state);
  void work();

  // ---- the caller's thread
  [[nodiscard]] Result<void> start(int worker_count);
  void assign_free();
  bool assign(SlotState& state);
  void drop();
  void wait_for(const SlotState& state);
  [[nodiscard]] Batch deliver(size_t index);
  [[nodiscard]] const Pass& current() const noexcept { return passes[present]; }

  std::vector<SlotState> slots;
  std::array<Pass, 2> passes;  // the present one and the announced one
  size_t present = 0;
  bool announced = false;
  size_t assigned = 0;                     // batches of the present pass
  size_t ahead = 0;                        // batches of the announced one
  size_t delivered = 0;                    // of the present pass
  boost::circular_buffer<uint32_t> order;  // slots being filled, in the order of delivery
  std::optional<Error> sticky;
  int64_t bad_samples = 0;
  Readers own_readers;  // without workers
  size_t chunks = 1;

  boost::lockfree::queue<Task> tasks;
  std::mutex mutex;
  std::condition_variable work_there, slot_ready;
  std::atomic<bool> dropping{false};
  bool stopping = false;  // under the mutex
  std::vector<std::thread> threads;
};

void BatchLoader::Impl::record(SlotState& state, size_t at, Error error) {
  const std::lock_guard lock(mutex);
  if (at >= state.error_at) return;
  state.error_at = at;
  state.error = std::move(error);
}

// The empty section orders the last count before a sleeper's check: a wake-up cannot fall between
// the two.
void BatchLoader::Impl::finish(SlotState& state) {
  if (state.missing.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  { const std::lock_guard lock(mutex); }
  slot_ready.notify_one();
}

void BatchLoader::Impl::run(const Task& task, Readers& readers) {
  SlotState& state = slots[task.slot];
  const Pass& pass = *state.pass;
  const auto samples = pass.plan.of(state.batch);
  const size_t elements = pass.source->shape().elements();
  SampleReader& reader = readers.of(pass.source);
  for (size_t i = task.first; i < size_t{task.first} + task.count; ++i) {
    if (dropping.load(std::memory_order_relaxed)) break;
    const size_t sample = samples[i];
    if (sample >= pass.source->size()) {
      record(
          state, i,
          fail(Code::kFailedPrecondition, "load batch {}: sample {} is outside the {} of the set",
               state.batch, sample, pass.source->size())
              .value());
      break;
    }
    const auto outcome =
        reader.read(sample, pass.epoch, state.slot.images + i * elements, state.slot.labels + i);
    if (!outcome) {
      record(state, i, outcome.error());
      break;
    }
    if (*outcome == Outcome::kSample) continue;
    state.bad.fetch_add(1, std::memory_order_relaxed);
    if (*outcome == Outcome::kStandIn) continue;
    state.slot.labels[i] = kLeftOutLabel;
    state.left_out.store(true, std::memory_order_relaxed);
  }
  finish(state);
}

void BatchLoader::Impl::work() {
  pthread_setname_np(pthread_self(), "npu-loader");
  Readers readers;
  for (;;) {
    Task task;
    while (tasks.pop(task)) run(task, readers);
    std::unique_lock lock(mutex);
    work_there.wait(lock, [&] { return stopping || !tasks.empty(); });
    if (stopping) return;
  }
}

Result<void> BatchLoader::Impl::start(int worker_count) {
  // Signals are the main thread's business: a worker that took SIGTERM would leave it asleep.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> result;
  for (int i = 0; i < worker_count && result; ++i) {
    try {
      threads.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      result =
          fail(Code::kResourceExhausted, "start loader thread {} of {}: {}; lower data.workers",
               i + 1, worker_count, e.what());
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

/// The next batch that nobody works on yet into `state`; false if there is none.
bool BatchLoader::Impl::assign(SlotState& state) {
  const Pass* pass = &current();
  size_t* cursor = &assigned;
  if (assigned == pass->plan.batches()) {
    pass = &passes[1 - present];
    cursor = &ahead;
    if (!announced || ahead == pass->plan.batches()) return false;
  }
  state.use = Use::kFilling;
  state.pass = pass;
  state.batch = (*cursor)++;
  state.bad.store(0, std::memory_order_relaxed);
  state.left_out.store(false, std::memory_order_relaxed);
  state.error.reset();
  state.error_at = SIZE_MAX;
  const size_t n = pass->plan.of(state.batch).size();
  const size_t parts = std::min(chunks, n);
  state.missing.store(static_cast<uint32_t>(parts), std::memory_order_relaxed);
  const auto slot = static_cast<uint32_t>(&state - slots.data());
  order.push_back(slot);
  for (size_t p = 0; p < parts; ++p) {
    const size_t first = n * p / parts;
    const size_t end = n * (p + 1) / parts;
    NPU_CHECK(tasks.bounded_push(
        Task{slot, static_cast<uint32_t>(first), static_cast<uint32_t>(end - first)}));
  }
  return true;
}

void BatchLoader::Impl::assign_free() {
  if (threads.empty()) return;
  bool any = false;
  for (SlotState& state : slots) {
    if (state.use != Use::kFree) continue;
    if (!assign(state)) break;
    any = true;
  }
  if (!any) return;
  { const std::lock_guard lock(mutex); }
  work_there.notify_all();
}

void BatchLoader::Impl::wait_for(const SlotState& state) {
  if (state.missing.load(std::memory_order_acquire) == 0) return;
  std::unique_lock lock(mutex);
  slot_ready.wait(lock, [&] { return state.missing.load(std::memory_order_acquire) == 0; });
}

/// Forgets all that is being prepared. Slots that the caller holds stay out.
void BatchLoader::Impl::drop() {
  dropping.store(true, std::memory_order_relaxed);
  Task task;
  while (tasks.pop(task)) finish(slots[task.slot]);
  for (const uint32_t slot : order) {
    wait_for(slots[slot]);
    slots[slot].use = Use::kFree;
  }
  order.clear();
  dropping.store(false, std::memory_order_relaxed);
  announced = false;
  assigned = ahead = delivered = 0;
}

/// Samples that were left out close their gaps.
Batch BatchLoader::Impl::deliver(size_t index) {
  SlotState& state = slots[index];
  state.use = Use::kOut;
  Batch batch{.images = state.slot.images,
              .labels = state.slot.labels,
              .n = static_cast<int>(state.pass->plan.of(state.batch).size()),
              .bad = static_cast<int>(state.bad.load(std::memory_order_relaxed)),
              .index = static_cast<int64_t>(state.batch),
              .slot = static_cast<int>(index)};
  bad_samples += batch.bad;
  if (!state.left_out.load(std::memory_order_relaxed)) return batch;
  const size_t elements = state.pass->source->shape().elements();
  int kept = 0;
  for (int i = 0; i < batch.n; ++i) {
    if (batch.labels[i] == kLeftOutLabel) continue;
    if (kept != i) {
      std::copy_n(batch.images + static_cast<size_t>(i) * elements, elements,
                  batch.images + static_cast<size_t>(kept) * elements);
      batch.labels[kept] = batch.labels[i];
    }
    ++kept;
  }
  batch.n = kept;
  return batch;
}

BatchLoader::BatchLoader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<BatchLoader>> BatchLoader::create(std::span<const Slot> slots,
                                                         const LoaderOptions& options) {
  if (slots.empty() || options.workers < 0) {
    return fail(Code::kInvalidArgument,
                "start the batch loader: {} slots, {} workers; expected at least one slot",
                slots.size(), options.workers);
  }
  std::unique_ptr<BatchLoader> loader(
      new BatchLoader(std::make_unique<Impl>(slots, options.workers)));
  NPU_TRY_VOID(loader->impl_->start(options.workers));
  return loader;
}

BatchLoader::~BatchLoader() {
  impl_->drop();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->work_there.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

void BatchLoader::begin(Pass pass) {
  NPU_CHECK(pass.source != nullptr && pass.plan.batch > 0);
  Impl& m = *impl_;
  m.sticky.reset();
  const bool finished = m.delivered == m.current().plan.batches();
  if (finished && m.announced && m.passes[1 - m.present] == pass) {
    m.present = 1 - m.present;
    m.assigned = m.ahead;
    m.announced = false;
    m.ahead = m.delivered = 0;
  } else {
    m.drop();
    m.passes[m.present] = std::move(pass);
  }
  m.assign_free();
}

void BatchLoader::announce(Pass pass) {
  NPU_CHECK(pass.source != nullptr && pass.plan.batch > 0);
  Impl& m = *impl_;
  if (m.ahead > 0) return;  // the announced one is under way already
  m.passes[1 - m.present] = std::move(pass);
  m.announced = true;
  m.assign_free();
}

Result<Batch> BatchLoader::next() {
  Impl& m = *impl_;
  if (m.sticky) return tl::make_unexpected(*m.sticky);
  if (m.delivered == m.current().plan.batches()) return Batch{};
  if (m.threads.empty()) {
    const auto free = std::ranges::find(m.slots, Use::kFree, &SlotState::use);
    Task task;
    if (free != m.slots.end() && m.order.empty()) m.assign(*free);
    while (m.tasks.pop(task)) m.run(task, m.own_readers);
  }
  if (m.order.empty()) {
    return fail(Code::kFailedPrecondition, "load batch {}: all {} slots are in use, release one",
                m.delivered, m.slots.size());
  }
  const uint32_t slot = m.order.front();
  m.wait_for(m.slots[slot]);
  if (m.slots[slot].error) {
    m.sticky = m.slots[slot].error;
    return tl::make_unexpected(*m.sticky);
  }
  m.order.pop_front();
  ++m.delivered;
  return m.deliver(slot);
}

int64_t BatchLoader::bad_samples() const noexcept { return impl_->bad_samples; }

void BatchLoader::release(const Batch& batch) {
  if (batch.slot < 0) return;  // the end marker
  Impl& m = *impl_;
  SlotState& state = m.slots.at(static_cast<size_t>(batch.slot));
  NPU_CHECK(state.use == Use::kOut);
  state.use = Use::kFree;
  m.assign_free();
}

}  // namespace npu::data
