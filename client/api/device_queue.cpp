#include "client/api/device_queue.hpp"

#include <sched.h>

#include <utility>

#include "shm/base/failpoint.hpp"
#include "shm/futex.hpp"
#include "shm/messages.hpp"

namespace npu::client {
namespace {

/// Before a sleep. Measured with 8 ranks on 2 cores: 8 bytes take 125-184 us without, 20-27 us with
/// 4, and no less with 16 or 64; docs/design/001.
constexpr int kYields = 4;

bool aborted(const shm::RunBoard& board) noexcept {
  // Pairs with the release in publish_abort.
  return board.members.state.load(std::memory_order_acquire) ==
         static_cast<uint32_t>(shm::RunState::kAborted);
}

Error outcome_error(const shm::Outcome& outcome) {
  const auto code = static_cast<Code>(outcome.code);
  std::string text(outcome.error_text.data());
  if (text.empty())
    text = fmt::format("collective seq {} failed ({})", outcome.sequence, code_name(code));
  return Error{code, std::move(text), default_exit(code)};
}

}  // namespace

DeviceQueue::DeviceQueue(DevicePlace place)
    : place_(std::move(place)),
      submitter_(*place_.submit, *place_.status, *place_.board, *place_.hints, place_.generation),
      staging_(place_.staging) {}

Error DeviceQueue::run_error() const {
  if (orphaned_) {
    return Error{
        Code::kFailedPrecondition,
        fmt::format("rank {}'s device belongs to the process that forked this one; attach in "
                    "the child itself, or fork before you attach",
                    place_.rank),
        default_exit(Code::kFailedPrecondition)};
  }
  if (!aborted(*place_.board)) return place_.failure();
  const auto& abort = place_.board->abort;
  const auto code = static_cast<Code>(abort.code);
  return Error{code, shm::get_text(abort.text), abort_exit(code)};
}

bool DeviceQueue::over() const noexcept {
  // The pages come last: a forked child has none.
  return orphaned_ || place_.failed->load(std::memory_order_acquire) || aborted(*place_.board);
}

std::optional<Error> DeviceQueue::failure() const {
  if (!over()) return std::nullopt;
  return run_error();
}

Result<uint64_t> DeviceQueue::submit(std::span<const shm::Request> requests,
                                     const shm::Arrival& arrival, const char* what) {
  // Two threads may each hold what the other needs; then neither waits for ever.
  const Deadline patience = Deadline::after(10 * shm::kWaitSlice);
  for (;;) {
    if (over()) return tl::unexpected(run_error());
    if (const auto ticket = submitter_.submit(requests, arrival)) return *ticket;
    const auto room = submitter_.wait_for_room(requests.size());
    if (room == shm::Submitter::Room::kNever) break;
    if (room == shm::Submitter::Room::kMaybe && patience.passed()) break;
  }
  return fail(Code::kResourceExhausted,
              "{}: {} operations are outstanding; wait for one of them first", what,
              shm::kQueueDepth);
}

bool DeviceQueue::ready(uint64_t ticket) const noexcept {
  shm::Outcome outcome;
  return over() || submitter_.poll(ticket, outcome);
}

bool DeviceQueue::sleep_until(uint64_t ticket, Deadline deadline, shm::Outcome& outcome) noexcept {
  const shm::RunBoard& board = *place_.board;
  const auto decided = [&] {
    // The state is read before the completion: an abort published after "done" must not hide it.
    const bool ended = over();
    return submitter_.poll(ticket, outcome) || ended;
  };
  // Bounded, and each time another rank runs: the core is handed on, not burnt. What is saved is
  // the sleep of a core that nobody else wants, from which a virtual machine wakes slowly.
  for (int i = 0; i < kYields && !decided(); ++i) ::sched_yield();
  const uint32_t bits = 1u << place_.rank;
  while (!decided()) {
    if (deadline.passed()) return false;
    // Flag, doorbell, re-check, sleep: pairs with ring_board in the daemon.
    place_.submit->rank.waiting.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t bell = board.doorbell.value.load(std::memory_order_seq_cst);
    if (!decided()) {
      shm::futex_wait_bits(board.doorbell.value, bell, deadline.remaining(shm::kWaitSlice), bits);
    }
    place_.submit->rank.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  return true;
}

Result<std::optional<shm::Outcome>> DeviceQueue::wait(uint64_t ticket, Deadline deadline) {
  if (orphaned_) return tl::unexpected(run_error());
  NPU_FAILPOINT("coll.before_wait");
  shm::Outcome outcome;
  submitter_.begin_wait(ticket);
  if (!sleep_until(ticket, deadline, outcome)) {
    submitter_.end_wait(ticket);
    return std::optional<shm::Outcome>();
  }
  const bool done = submitter_.poll(ticket, outcome);
  submitter_.release(ticket);
  NPU_FAILPOINT("coll.after_wait");
  if (!done) return tl::unexpected(run_error());
  if (outcome.code != 0) return tl::unexpected(outcome_error(outcome));
  return std::optional<shm::Outcome>(outcome);
}

}  // namespace npu::client
