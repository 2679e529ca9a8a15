// The rank's end of the submission ring and of the completion slots: claims a ticket, writes the
// entry, publishes it, later reads the ticket's completion. Lock-free between threads of one
// process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "shm/board_data.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::shm {

/// What a caller fills in; generation, sequence and stamp are the submitter's business.
struct Request {
  Op op = Op::kNone;
  uint8_t dtype = 0;
  uint8_t reduce_op = 0;
  Algorithm algorithm = Algorithm::kAuto;
  uint32_t communicator = 0;
  uint32_t root = 0;
  uint32_t flags = 0;
  uint32_t timeout_ms = 0;
  uint64_t count = 0;
  uint64_t send_offset = 0;
  uint64_t recv_offset = 0;
  double scale = 1.0;
  std::array<std::byte, kInlineBytes> inline_payload{};
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

/// Invariants: (1) ticket t uses entry and completion slot t % kQueueDepth; (2) the slot's turn is
/// t from the moment ticket t - kQueueDepth was released; (3) an entry is written only by the
/// thread that claimed its ticket. Thread: submit, poll and release may be called from any thread;
/// one release a ticket.
class Submitter {
 public:
  Submitter(SubmitPage& page, const StatusPage& status, const RunBoard& board,
            uint64_t generation) noexcept;

  /// Publishes a request and takes the next number of `sequence`. Empty when kQueueDepth tickets
  /// are unreleased: nothing was sent, the caller waits for one of them. Cost: one line written, a
  /// futex wake if the engine sleeps.
  [[nodiscard]] std::optional<uint64_t> submit(const Request& request,
                                               std::atomic<uint64_t>& sequence) noexcept;

  /// True and fills `outcome` once the ticket is complete. Does not wait.
  [[nodiscard]] bool poll(uint64_t ticket, Outcome& outcome) const noexcept;

  /// Gives the slot back; the ticket must be complete or the run over.
  void release(uint64_t ticket) noexcept;

  /// The caller will never ask for this ticket again; its slot is taken back once it is complete.
  void abandon(uint64_t ticket) noexcept;

 private:
  [[nodiscard]] bool slot_free(uint64_t ticket) noexcept;

  SubmitPage& page_;
  const StatusPage& status_;
  const RunBoard& board_;
  const uint64_t generation_;
  alignas(kLineBytes) std::atomic<uint64_t> next_{0};
  std::array<std::atomic<uint64_t>, kQueueDepth> turn_;
  std::array<std::atomic<bool>, kQueueDepth> abandoned_;
};

}  // namespace npu::shm
