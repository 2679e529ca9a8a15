// The rank's end of the submission ring and of the completion slots: claims tickets, writes the
// entries, publishes them, later reads each ticket's completion. Lock-free between threads of one
// process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "shm/base/clock.hpp"
#include "shm/board_data.hpp"
#include "shm/hints_data.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::shm {

/// What a caller fills in; generation and stamp are the submitter's business.
struct Request {
  Op op = Op::kNone;
  uint8_t dtype = 0;
  uint8_t reduce_op = 0;
  Algorithm algorithm = Algorithm::kAuto;
  uint8_t stream = 0;
  uint32_t communicator = 0;
  uint32_t root = 0;
  uint32_t flags = 0;
  uint32_t timeout_ms = 0;
  uint64_t count = 0;
  uint64_t send_offset = 0;
  uint64_t recv_offset = 0;
  double scale = 1.0;
  std::array<std::byte, kInlineBytes> inline_payload{};
  VectorArgs vectors{};  // sent if op_has_vectors(op)
};

/// A completion as copied out of the status page.
struct Outcome {
  uint8_t code = 0;  // 0 = done
  bool found_inf = false;
  bool result_inf = false;
  Algorithm algorithm = Algorithm::kAuto;
  int32_t culprit = -1;
  uint64_t sequence = 0;
  double sum_squares = 0;
  std::array<std::byte, kInlineBytes> inline_payload{};
  std::array<char, kErrorTextBytes> error_text{};  // empty when code is 0 or the slot was reused
};

/// Which ranks an operation needs before it can start: the members of a communicator, by their
/// counts on the hint page. `slot` beyond the page (a send, a receive): the engine is woken always.
struct Arrival {
  uint32_t slot = kMaxCommunicators;
  uint32_t rank = 0, size = 1;
};

/// Invariants: (1) ticket t uses entry and completion slot t % kQueueDepth; (2) the slot's turn is
/// t from the moment ticket t - kQueueDepth was released, and never goes back; (3) an entry is
/// written only by the thread that claimed its ticket. Thread: all members may be called from any
/// thread; one release a ticket.
class Submitter {
 public:
  Submitter(SubmitPage& page, const StatusPage& status, const RunBoard& board, RunHints& hints,
            uint64_t generation) noexcept;

  /// Publishes the requests under consecutive tickets and returns the first. Empty when the ring
  /// has no room for all of them: nothing was sent. Cost: one line written a request, a futex wake
  /// if the engine sleeps and this rank is the last to arrive, or another of its threads submits.
  [[nodiscard]] std::optional<uint64_t> submit(std::span<const Request> requests,
                                               const Arrival& arrival) noexcept;

  /// After an empty submit of `n`: sleeps until a slot may have become free, at most a wait slice.
  enum class Room : uint8_t {
    kSoon,   // try again: it is free, or its holder is inside a wait
    kMaybe,  // try again, but not for ever: another thread holds it and is not waiting yet
    kNever,  // the calling thread holds it, and must release it first
  };
  [[nodiscard]] Room wait_for_room(size_t n) noexcept;

  /// True and fills `outcome` once the ticket is complete. Does not wait.
  [[nodiscard]] bool poll(uint64_t ticket, Outcome& outcome) const noexcept;

  /// The ticket's holder sleeps until it is complete, and then releases it (or calls end_wait).
  void begin_wait(uint64_t ticket) noexcept { set_holder(ticket, Holder::kWaiting); }
  void end_wait(uint64_t ticket) noexcept { set_holder(ticket, Holder::kIdle); }

  /// Gives the slot back; the ticket must be complete or the run over.
  void release(uint64_t ticket) noexcept;

  /// The caller will never ask for this ticket again; its slot is taken back once it is complete.
  void abandon(uint64_t ticket) noexcept;

 private:
  enum class Holder : uint8_t { kIdle, kWaiting, kGone };
  /// What a slot's user is about, with its ticket: what an earlier user left says nothing.
  [[nodiscard]] static uint64_t held(uint64_t ticket, Holder holder) noexcept {
    return ticket * 4 + static_cast<uint64_t>(holder);
  }
  void set_holder(uint64_t ticket, Holder holder) noexcept {
    holder_[ticket % kQueueDepth].store(held(ticket, holder), std::memory_order_release);
  }
  /// For a ticket that may be claimed next: its slot is free, held by the ticket before, or a later
  /// ticket's already.
  enum class Slot : uint8_t { kFree, kHeld, kPassed };
  [[nodiscard]] Slot look_at(uint64_t ticket) noexcept;
  [[nodiscard]] bool slots_free(uint64_t first, size_t n) noexcept;
  [[nodiscard]] Room sleep_for(uint64_t ticket, uint32_t word) noexcept;
  void wake_room_waiters() noexcept;
  void write_entry(uint64_t ticket, const Request& request) noexcept;
  [[nodiscard]] bool somebody_missing(uint64_t before, size_t n, const Arrival& arrival) noexcept;
  void announce(uint64_t first, size_t n, uint64_t before, const Arrival& arrival) noexcept;

  SubmitPage& page_;
  const StatusPage& status_;
  const RunBoard& board_;
  RunHints& hints_;
  const uint64_t generation_;
  alignas(kLineBytes) std::atomic<uint64_t> next_{0};
  std::array<std::atomic<uint64_t>, kQueueDepth> turn_;
  std::array<std::atomic<uint64_t>, kQueueDepth> holder_;   // held()
  std::array<std::atomic<uintptr_t>, kQueueDepth> thread_;  // that submitted, see this_thread()
  std::atomic<uint32_t> released_{0};  // futex word of wait_for_room: a slot changed its holder
  std::atomic<uint32_t> room_waiters_{0};
};

}  // namespace npu::shm
