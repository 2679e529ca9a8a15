// The part of a run's memory that wakes and sleeps need; the model's pages are members of the
// simulation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shm/board_data.hpp"
#include "shm/hints_data.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

struct RankMemory {
  struct {
    shm::SubmitPage* page = nullptr;
    [[nodiscard]] const void* data() const noexcept { return page; }
  } submit;
  shm::StatusPage* status = nullptr;

  [[nodiscard]] shm::SubmitPage* submit_page() const noexcept { return submit.page; }
  [[nodiscard]] shm::StatusPage* status_page() const noexcept { return status; }
};

struct RunMemory {
  uint32_t world = 0;
  shm::RunBoard* the_board = nullptr;
  shm::RunHints* the_hints = nullptr;
  std::array<RankMemory, shm::kMaxDevices> ranks;

  [[nodiscard]] shm::RunBoard* board() const noexcept { return the_board; }
  [[nodiscard]] shm::RunHints* hints() const noexcept { return the_hints; }
};

void publish_abort(RunMemory& run, uint8_t code, int32_t culprit, int64_t pid,
                   const std::string& text) noexcept;
void ring_board(RunMemory& run, uint32_t rank_mask) noexcept;

}  // namespace npu::daemon
