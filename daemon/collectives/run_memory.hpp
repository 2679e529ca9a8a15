// The memory of one run generation as the daemon maps it: arenas, pages and board of every rank.
// Shared by the control server, the engine and the checkpoint writer; unmapped when the last of
// them lets go.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/collectives/flight_recorder.hpp"
#include "daemon/collectives/journal.hpp"
#include "daemon/metrics/counters.hpp"
#include "shm/board_data.hpp"
#include "shm/hints_data.hpp"
#include "shm/layout_data.hpp"
#include "shm/segment.hpp"
#include "shm/status_data.hpp"
#include "shm/submit_data.hpp"

namespace npu::daemon {

struct RankMemory {
  shm::Mapping arena;
  shm::Mapping submit;
  shm::Mapping status;
  int64_t pid = 0;
  uint32_t device = 0;

  [[nodiscard]] shm::SubmitPage* submit_page() const noexcept {
    return reinterpret_cast<shm::SubmitPage*>(submit.data());
  }
  [[nodiscard]] shm::StatusPage* status_page() const noexcept {
    return reinterpret_cast<shm::StatusPage*>(status.data());
  }
};

struct RunMemory {
  uint64_t id = 0;
  uint64_t generation = 0;
  uint32_t world = 0;
  int64_t uid = 0;
  std::string name;
  shm::Mapping board_mapping;
  shm::Mapping hints_mapping;
  /// Shared: it is still read when the rest of the run's memory has gone. Null where nobody asked
  /// for one (tests).
  std::shared_ptr<FlightRecorder> recorder;
  /// Of all runs of the engine, which sets it. Null where nobody counts (tests).
  EngineCounters* totals = nullptr;
  RunCounters counters;
  std::array<RankMemory, shm::kMaxDevices> ranks;
  /// What the next daemon needs if this one dies; without one (tests) the run ends with it.
  Journal journal;
  bool taken_over = false;  // the ranks' rings and pages are in use since an earlier daemon
  std::atomic<uint64_t> collectives_done{0};  // engine writes, control server reads

  [[nodiscard]] shm::RunBoard* board() const noexcept {
    return reinterpret_cast<shm::RunBoard*>(board_mapping.data());
  }
  [[nodiscard]] shm::RunHints* hints() const noexcept {
    return reinterpret_cast<shm::RunHints*>(hints_mapping.data());
  }
  [[nodiscard]] uint32_t all_ranks() const noexcept { return (1u << world) - 1; }
};

/// Writes the reason, then the state, then wakes every member. Called once a run, by the one thread
/// that owns the board at that time (control server while forming, engine afterwards).
void publish_abort(RunMemory& run, uint8_t code, int32_t culprit, int64_t pid,
                   const std::string& text) noexcept;

/// Bumps the board's doorbell and wakes those members of `rank_mask` that sleep on it.
void ring_board(RunMemory& run, uint32_t rank_mask) noexcept;

}  // namespace npu::daemon
