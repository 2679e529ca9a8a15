#include "daemon/collectives/stream_queues.hpp"

namespace npu::daemon {

StreamQueues::StreamQueues(uint32_t world) {
  for (uint32_t r = 0; r < world; ++r) {
    ranks_[r].entries = std::make_unique<Pending[]>(shm::kQueueDepth);
    for (uint32_t i = 0; i < shm::kQueueDepth; ++i) ranks_[r].entries[i].rank = r;
  }
}

Pending* StreamQueues::claim(uint32_t rank, uint64_t ticket) noexcept {
  Pending& pending = ranks_[rank].entries[ticket % shm::kQueueDepth];
  return pending.in_use ? nullptr : &pending;
}

void StreamQueues::add(Pending& pending) noexcept {
  Rank& rank = ranks_[pending.rank];
  Stream& stream = rank.streams[pending.s.stream];
  const auto index = static_cast<uint16_t>(pending.s.ticket % shm::kQueueDepth);
  pending.in_use = true;
  pending.batch = rank.batch;
  if ((pending.s.flags & shm::kFlagJoined) == 0) ++rank.batch;
  pending.previous = stream.tail;
  pending.next = kNone;
  if (stream.tail != kNone) rank.entries[stream.tail].next = index;
  if (stream.head == kNone) stream.head = index;
  stream.tail = index;
  ++rank.size;
}

void StreamQueues::remove(Pending& pending, uint64_t now) noexcept {
  Rank& rank = ranks_[pending.rank];
  Stream& stream = rank.streams[pending.s.stream];
  if (pending.previous != kNone) {
    rank.entries[pending.previous].next = pending.next;
  } else {
    stream.head = pending.next;
  }
  if (pending.next != kNone) {
    rank.entries[pending.next].previous = pending.previous;
  } else {
    stream.tail = pending.previous;
  }
  stream.removed_ns = now;
  pending.in_use = false;
  --rank.size;
}

bool StreamQueues::first(const Pending& pending) const noexcept {
  const Rank& rank = ranks_[pending.rank];
  return rank.entries[rank.streams[pending.s.stream].head].batch == pending.batch;
}

Pending& StreamQueues::front(const Pending& pending) noexcept {
  Rank& rank = ranks_[pending.rank];
  return rank.entries[rank.streams[pending.s.stream].head];
}

Pending* StreamQueues::next_of_batch(const Pending& pending) noexcept {
  if (pending.next == kNone) return nullptr;
  Pending& next = ranks_[pending.rank].entries[pending.next];
  return next.batch == pending.batch ? &next : nullptr;
}

uint64_t StreamQueues::last_removed_ns(const Pending& pending) const noexcept {
  return ranks_[pending.rank].streams[pending.s.stream].removed_ns;
}

}  // namespace npu::daemon
