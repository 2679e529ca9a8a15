#include "shm/submit_client.hpp"

#include <cstring>

#include "shm/futex.hpp"

namespace npu::shm {

Submitter::Submitter(SubmitPage& page, const StatusPage& status, const RunBoard& board,
                     uint64_t generation) noexcept
    : page_(page), status_(status), board_(board), generation_(generation) {
  for (uint64_t i = 0; i < kQueueDepth; ++i) {
    turn_[i].store(i, std::memory_order_relaxed);
    abandoned_[i].store(false, std::memory_order_relaxed);
  }
}

bool Submitter::slot_free(uint64_t ticket) noexcept {
  const uint64_t slot = ticket % kQueueDepth;
  // Pairs with the release in release(): the previous user has read its completion.
  if (turn_[slot].load(std::memory_order_acquire) == ticket) return true;
  if (!abandoned_[slot].load(std::memory_order_acquire)) return false;
  const uint64_t previous = ticket - kQueueDepth;
  if (status_.completions[slot].stamp.load(std::memory_order_acquire) != previous + 1) return false;
  // Two submitters may both get here; one of them takes the slot back, both then compete for the
  // ticket.
  if (abandoned_[slot].exchange(false, std::memory_order_acq_rel)) {
    turn_[slot].store(ticket, std::memory_order_release);
  }
  return turn_[slot].load(std::memory_order_acquire) == ticket;
}

std::optional<uint64_t> Submitter::submit(const Request& request,
                                          std::atomic<uint64_t>& sequence) noexcept {
  uint64_t ticket = next_.load(std::memory_order_relaxed);
  do {
    if (!slot_free(ticket)) {
      const uint64_t again = next_.load(std::memory_order_relaxed);
      if (again == ticket) return std::nullopt;
      ticket = again;  // another thread took it; look at the newer one
      continue;
    }
    if (next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) break;
  } while (true);

  Descriptor& entry = page_.entries[ticket % kQueueDepth];
  entry.generation = generation_;
  entry.sequence = sequence.fetch_add(1, std::memory_order_relaxed);
  entry.count = request.count;
  entry.send_offset = request.send_offset;
  entry.recv_offset = request.recv_offset;
  entry.scale = request.scale;
  entry.communicator = request.communicator;
  entry.timeout_ms = request.timeout_ms;
  entry.root = request.root;
  entry.flags = request.flags;
  entry.op = static_cast<uint8_t>(request.op);
  entry.dtype = request.dtype;
  entry.reduce_op = request.reduce_op;
  entry.algorithm = static_cast<uint8_t>(request.algorithm);
  std::memcpy(entry.inline_payload, request.inline_payload.data(), kInlineBytes);
  // seq_cst store, then seq_cst load of the sleep flag: pairs with the engine, which sets the flag
  // and then scans the stamps. One of the two always sees the other.
  entry.stamp.store(ticket + 1, std::memory_order_seq_cst);
  if (board_.engine.asleep.load(std::memory_order_seq_cst) != 0) {
    page_.doorbell.value.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(page_.doorbell.value, 1);
  }
  return ticket;
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
}

void Submitter::abandon(uint64_t ticket) noexcept {
  abandoned_[ticket % kQueueDepth].store(true, std::memory_order_release);
}

}  // namespace npu::shm
