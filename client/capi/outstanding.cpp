#include "client/capi/outstanding.hpp"

#include <algorithm>
#include <utility>

namespace npu::capi {

std::optional<Outstanding::Obstacle> Outstanding::obstacle(uint8_t stream,
                                                           std::span<const Footprint> uses) const {
  const std::lock_guard lock(mutex_);
  const uint64_t wanted = std::max<uint64_t>(1, uses.size());
  if (head_ != tail_ && position_ + wanted - at(head_).position > shm::kQueueDepth - kSpare) {
    return Obstacle{at(head_).stream, head_};
  }
  std::optional<Obstacle> last;
  for (const Footprint& use : uses) {
    if (!use.captures && streams_[stream].late == 0) continue;
    for (uint64_t s = streams_[stream].first; s != kNone; s = at(s).next) {
      const Entry& earlier = at(s);
      // Both in the arena: the engines keep the order.
      if (!use.captures && !earlier.late) continue;
      if (!use.reads.overlaps(earlier.writes) && !use.writes.overlaps(earlier.writes)) continue;
      if (!last || last->sequence < s) last = Obstacle{stream, s};
    }
  }
  return last;
}

void Outstanding::add(std::span<client::Work> works, std::span<const Footprint> uses,
                      uint8_t stream, uint32_t communicator) {
  const std::lock_guard lock(mutex_);
  Stream& queue = streams_[stream];
  for (size_t i = 0; i < works.size(); ++i) {
    Entry& entry = at(tail_);
    NPU_CHECK(entry.state == State::kFree);
    entry.work = std::move(works[i]);
    entry.writes = uses[i].writes;
    entry.position = position_++;
    entry.next = kNone;
    entry.communicator = communicator;
    entry.stream = stream;
    entry.late = uses[i].late;
    entry.state = State::kIdle;
    if (entry.late) ++queue.late;
    if (queue.first == kNone) queue.first = tail_;
    if (queue.last != kNone) at(queue.last).next = tail_;
    queue.last = tail_++;
  }
}

void Outstanding::count_blocking() {
  const std::lock_guard lock(mutex_);
  ++position_;
}

void Outstanding::retire_first(uint8_t stream) noexcept {
  Stream& queue = streams_[stream];
  Entry& entry = at(queue.first);
  if (entry.late) --queue.late;
  queue.first = entry.next;
  if (queue.first == kNone) queue.last = kNone;
  entry.state = State::kFree;
  ++finished_;
  while (head_ != tail_ && at(head_).state == State::kFree) ++head_;
}

// Finishes the oldest of the stream, or lets the thread that is at it do so: the caller looks
// again.
bool Outstanding::finish_first(std::unique_lock<std::mutex>& lock, uint8_t stream,
                               Deadline deadline) {
  Entry& entry = at(streams_[stream].first);
  if (entry.state == State::kWaited) {
    if (deadline.is_never()) {
      changed_.wait(lock);
      return true;
    }
    return changed_.wait_until(lock, deadline.at()) == std::cv_status::no_timeout;
  }
  entry.state = State::kWaited;  // from here on the entry's handle is this thread's
  lock.unlock();
  auto done = [&] {
    try {
      return entry.work.wait(deadline);
    } catch (...) {
      lock.lock();
      entry.state = State::kIdle;
      changed_.notify_all();
      throw;
    }
  }();
  lock.lock();
  entry.state = State::kIdle;
  changed_.notify_all();
  if (entry.work.valid()) return false;
  const uint32_t communicator = entry.communicator;
  retire_first(stream);
  if (!done) keep_error(stream, communicator, std::move(done.error()));
  return true;
}

bool Outstanding::finish_through(std::unique_lock<std::mutex>& lock, uint8_t stream,
                                 uint64_t sequence, Deadline deadline) {
  while (streams_[stream].first <= sequence && streams_[stream].first != kNone) {
    if (!finish_first(lock, stream, deadline)) return false;
  }
  return true;
}

void Outstanding::finish(const Obstacle& obstacle) {
  std::unique_lock lock(mutex_);
  (void)finish_through(lock, obstacle.stream, obstacle.sequence, Deadline::never());
}

bool Outstanding::finish_stream(uint8_t stream, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return finish_through(lock, stream, streams_[stream].last, deadline);
}

void Outstanding::finish_communicator(uint32_t communicator) {
  std::unique_lock lock(mutex_);
  for (uint8_t stream = 0; stream < shm::kMaxStreams; ++stream) {
    std::optional<uint64_t> last;
    for (uint64_t s = streams_[stream].first; s != kNone; s = at(s).next) {
      if (at(s).communicator == communicator) last = s;
    }
    if (last) (void)finish_through(lock, stream, *last, Deadline::never());
  }
}

bool Outstanding::finish_oldest() {
  std::unique_lock lock(mutex_);
  if (head_ == tail_) return false;
  return finish_through(lock, at(head_).stream, head_, Deadline::never());
}

bool Outstanding::reap(uint8_t stream) {
  std::unique_lock lock(mutex_);
  while (streams_[stream].first != kNone) {
    const Entry& entry = at(streams_[stream].first);
    if (entry.state == State::kWaited || !entry.work.ready()) return false;
    (void)finish_first(lock, stream, Deadline::never());
  }
  return true;
}

uint64_t Outstanding::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void Outstanding::keep_error(uint8_t stream, uint32_t communicator, Error error) {
  auto& errors = streams_[stream].errors;
  const bool known = std::any_of(errors.begin(), errors.end(), [&](const KeptError& kept) {
    return kept.communicator == communicator;
  });
  if (!known) errors.push_back({communicator, std::move(error)});
}

std::optional<Error> Outstanding::take_stream_error(uint8_t stream) {
  const std::lock_guard lock(mutex_);
  auto& errors = streams_[stream].errors;
  if (errors.empty()) return std::nullopt;
  Error first = std::move(errors.front().error);
  errors.clear();
  return first;
}

std::optional<Error> Outstanding::communicator_error(uint32_t communicator, bool forget) {
  const std::lock_guard lock(mutex_);
  std::optional<Error> found;
  for (Stream& stream : streams_) {
    for (const KeptError& kept : stream.errors) {
      if (kept.communicator == communicator && !found) found = kept.error;
    }
    if (!forget) continue;
    std::erase_if(stream.errors,
                  [&](const KeptError& kept) { return kept.communicator == communicator; });
  }
  return found;
}

}  // namespace npu::capi
