#include "shm/submit_client.hpp"

#include <climits>
#include <cstring>

#include "shm/base/failpoint.hpp"
#include "shm/futex.hpp"

namespace npu::shm {

namespace {

/// Differs from thread to thread for as long as both live.
uintptr_t this_thread() noexcept {
  thread_local const char token = 0;
  return reinterpret_cast<uintptr_t>(&token);
}

}  // namespace

Submitter::Submitter(SubmitPage& page, const StatusPage& status, const RunBoard& board,
                     RunHints& hints, uint64_t generation) noexcept
    : page_(page), status_(status), board_(board), hints_(hints), generation_(generation) {
  for (uint64_t i = 0; i < kQueueDepth; ++i) {
    turn_[i].store(i, std::memory_order_relaxed);
    holder_[i].store(held(i, Holder::kIdle), std::memory_order_relaxed);
    thread_[i].store(0, std::memory_order_relaxed);
  }
}

Submitter::Slot Submitter::look_at(uint64_t ticket) noexcept {
  const uint64_t slot = ticket % kQueueDepth;
  const uint64_t previous = ticket - kQueueDepth;
  // Pairs with the release in release(): the previous user has read its completion.
  uint64_t turn = turn_[slot].load(std::memory_order_acquire);
  if (turn != previous) return turn == ticket ? Slot::kFree : Slot::kPassed;
  const uint64_t holder = holder_[slot].load(std::memory_order_acquire);
  if (holder != held(previous, Holder::kGone)) return Slot::kHeld;
  const uint64_t stamp = status_.completions[slot].stamp.load(std::memory_order_acquire);
  if (stamp != previous + 1) return Slot::kHeld;
  // Several submitters may get here; one of them takes the slot back, all then compete for the
  // ticket. Turns only go up: who comes late cannot take it from a later user.
  const bool mine = turn_[slot].compare_exchange_strong(turn, ticket, std::memory_order_acq_rel);
  return mine || turn == ticket ? Slot::kFree : Slot::kPassed;
}

bool Submitter::slots_free(uint64_t first, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) {
    if (look_at(first + i) != Slot::kFree) return false;
  }
  return true;
}

void Submitter::write_entry(uint64_t ticket, const Request& request) noexcept {
  Descriptor& entry = page_.entries[ticket % kQueueDepth];
  entry.generation = generation_;
  entry.count = request.count;
  entry.send_offset = request.send_offset;
  entry.recv_offset = request.recv_offset;
  NPU_FAILPOINT("coll.entry_half_written");
  entry.scale = request.scale;
  entry.communicator = request.communicator;
  entry.timeout_ms = request.timeout_ms;
  entry.root = request.root;
  entry.flags = request.flags;
  entry.op = static_cast<uint8_t>(request.op);
  entry.dtype = request.dtype;
  entry.reduce_op = request.reduce_op;
  entry.algorithm = static_cast<uint8_t>(request.algorithm);
  entry.stream = request.stream;
  std::memcpy(entry.inline_payload, request.inline_payload.data(), kInlineBytes);
  if (op_has_vectors(request.op)) page_.vectors[ticket % kQueueDepth] = request.vectors;
  // seq_cst: the engine sets its sleep flag and then scans the stamps, announce() reads the flag
  // after this. One of the two always sees the other.
  entry.stamp.store(ticket + 1, std::memory_order_seq_cst);
}

bool Submitter::somebody_missing(uint64_t before, size_t n, const Arrival& arrival) noexcept {
  if (arrival.slot >= kMaxCommunicators) return false;
  auto& counts = hints_.arrivals[arrival.slot].submitted;
  // seq_cst: each member adds its own and then reads the others', so the last of them in the
  // order of all additions sees everybody.
  counts[arrival.rank].fetch_add(n, std::memory_order_seq_cst);
  for (uint32_t r = 0; r < arrival.size; ++r) {
    if (r != arrival.rank && counts[r].load(std::memory_order_seq_cst) <= before) return true;
  }
  return false;
}

void Submitter::announce(uint64_t first, size_t n, uint64_t before,
                         const Arrival& arrival) noexcept {
  NPU_FAILPOINT("coll.before_kick");
  // Whoever is missing for the first of these operations will ring when it arrives. But the engine
  // takes tickets in order: what another thread published behind these tickets, perhaps for another
  // communicator, was held up until now. seq_cst: a claim that is not seen here comes after these
  // stamps, and so does its ring.
  if (somebody_missing(before, n, arrival) && next_.load(std::memory_order_seq_cst) == first + n) {
    return;
  }
  if (board_.engine.asleep.load(std::memory_order_seq_cst) == 0) return;
  hints_.doorbell.value.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(hints_.doorbell.value, 1);
}

std::optional<uint64_t> Submitter::submit(std::span<const Request> requests,
                                          const Arrival& arrival) noexcept {
  NPU_FAILPOINT("coll.before_submit");
  // Read before the ticket is claimed: with two threads, what this thread submits is then never
  // older than operation number `before` of the communicator.
  const bool counted = arrival.slot < kMaxCommunicators;
  const uint64_t before =
      counted
          ? hints_.arrivals[arrival.slot].submitted[arrival.rank].load(std::memory_order_relaxed)
          : 0;
  uint64_t ticket = next_.load(std::memory_order_relaxed);
  do {
    if (!slots_free(ticket, requests.size())) {
      const uint64_t again = next_.load(std::memory_order_relaxed);
      if (again == ticket) return std::nullopt;
      ticket = again;  // another thread took it; look at the newer one
      continue;
    }
    // seq_cst: see announce().
    if (next_.compare_exchange_weak(ticket, ticket + requests.size(), std::memory_order_seq_cst))
      break;
  } while (true);
  for (size_t i = 0; i < requests.size(); ++i) {
    thread_[(ticket + i) % kQueueDepth].store(this_thread(), std::memory_order_relaxed);
    set_holder(ticket + i, Holder::kIdle);  // whoever sees this ticket's holder sees its thread
    write_entry(ticket + i, requests[i]);
  }
  announce(ticket, requests.size(), before, arrival);
  NPU_FAILPOINT("coll.after_submit");
  return ticket;
}

Submitter::Room Submitter::wait_for_room(size_t n) noexcept {
  const uint32_t word = released_.load(std::memory_order_seq_cst);
  room_waiters_.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t first = next_.load(std::memory_order_relaxed);
  Room room = Room::kSoon;
  for (size_t i = 0; i < n; ++i) {
    const Slot slot = look_at(first + i);
    if (slot == Slot::kFree) continue;
    if (slot == Slot::kHeld) room = sleep_for(first + i, word);
    break;  // passed: another thread found room
  }
  room_waiters_.fetch_sub(1, std::memory_order_relaxed);
  return room;
}

Submitter::Room Submitter::sleep_for(uint64_t ticket, uint32_t word) noexcept {
  const uint64_t slot = ticket % kQueueDepth;
  const uint64_t previous = ticket - kQueueDepth;
  const uint64_t holder = holder_[slot].load(std::memory_order_acquire);
  if (holder == held(previous, Holder::kGone)) {
    // Its completion frees the slot. Flag, doorbell, re-check, sleep: pairs with ring_board.
    page_.rank.waiting.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t bell = board_.doorbell.value.load(std::memory_order_seq_cst);
    if (look_at(ticket) == Slot::kHeld) futex_wait(board_.doorbell.value, bell, kWaitSlice);
    page_.rank.waiting.fetch_sub(1, std::memory_order_relaxed);
    return Room::kMaybe;
  }
  const bool mine = holder == held(previous, Holder::kIdle) &&
                    thread_[slot].load(std::memory_order_relaxed) == this_thread();
  if (mine) return Room::kNever;
  futex_wait(released_, word, kWaitSlice);  // ended by release() and abandon()
  return holder == held(previous, Holder::kWaiting) ? Room::kSoon : Room::kMaybe;
}

bool Submitter::poll(uint64_t ticket, Outcome& outcome) const noexcept {
  const Completion& slot = status_.completions[ticket % kQueueDepth];
  // Pairs with the release in CompletionWriter.
  if (slot.stamp.load(std::memory_order_acquire) != ticket + 1) return false;
  outcome.code = slot.code;
  outcome.found_inf = slot.found_inf != 0;
  outcome.result_inf = slot.result_inf != 0;
  outcome.algorithm = static_cast<Algorithm>(slot.algorithm);
  outcome.culprit = slot.culprit;
  outcome.sequence = slot.sequence;
  outcome.sum_squares = slot.sum_squares;
  std::memcpy(outcome.inline_payload.data(), slot.inline_payload, kInlineBytes);
  outcome.error_text[0] = '\0';
  if (slot.code != 0 && slot.error_text < kErrorTexts) {
    const ErrorText& text = status_.error_texts[slot.error_text];
    if (text.ticket_stamp.load(std::memory_order_acquire) == ticket + 1) {
      std::memcpy(outcome.error_text.data(), text.text, kErrorTextBytes);
      outcome.error_text.back() = '\0';
    }
  }
  return true;
}

void Submitter::release(uint64_t ticket) noexcept {
  turn_[ticket % kQueueDepth].store(ticket + kQueueDepth, std::memory_order_release);
  wake_room_waiters();
}

void Submitter::abandon(uint64_t ticket) noexcept {
  set_holder(ticket, Holder::kGone);
  wake_room_waiters();
}

void Submitter::wake_room_waiters() noexcept {
  // Word, then waiters; wait_for_room counts itself, then looks at the slot: one sees the other.
  released_.fetch_add(1, std::memory_order_seq_cst);
  if (room_waiters_.load(std::memory_order_seq_cst) != 0) futex_wake(released_, INT_MAX);
}

}  // namespace npu::shm
