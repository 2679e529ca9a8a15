#include "daemon/collectives/run_memory.hpp"

#include "shm/futex.hpp"

namespace npu::daemon {

void publish_abort(RunMemory& run, uint8_t code, int32_t culprit, int64_t pid,
                   const std::string& text) noexcept {
  shm::RunBoard& board = *run.board();
  board.abort.code = code;
  board.abort.culprit = culprit;
  board.abort.pid = pid;
  const size_t n = text.copy(board.abort.text, shm::kAbortTextBytes - 1);
  board.abort.text[n] = '\0';
  // Pairs with the acquire of the members' wait loop.
  board.members.state.store(static_cast<uint32_t>(shm::RunState::kAborted),
                            std::memory_order_release);
  board.doorbell.value.fetch_add(1, std::memory_order_seq_cst);
  shm::futex_wake_bits(board.doorbell.value, UINT32_MAX);
}

void ring_board(RunMemory& run, uint32_t rank_mask) noexcept {
  shm::RunBoard& board = *run.board();
  // seq_cst: a member stores its waiting flag, reads the doorbell, re-checks, sleeps; one of us
  // sees the other.
  board.doorbell.value.fetch_add(1, std::memory_order_seq_cst);
  uint32_t sleepers = 0;
  for (uint32_t r = 0; r < run.world; ++r) {
    if ((rank_mask & (1u << r)) == 0 || run.ranks[r].submit.data() == nullptr) continue;
    if (run.ranks[r].submit_page()->rank.waiting.load(std::memory_order_seq_cst) != 0)
      sleepers |= 1u << r;
  }
  if (sleepers != 0) shm::futex_wake_bits(board.doorbell.value, sleepers);
}

}  // namespace npu::daemon
