// A run as the coordinator sees it: readers, writers, matcher, and the collective in progress.
// Private to the engine.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/helper.hpp"
#include "daemon/collectives/matcher.hpp"
#include "daemon/collectives/ring.hpp"
#include "daemon/collectives/run_memory.hpp"
#include "shm/base/error.hpp"
#include "shm/submit_daemon.hpp"

namespace npu::daemon {

/// Why a run ends by the engine's own judgement.
struct RunFailure {
  Code code = Code::kInternal;
  int32_t culprit = -1;
  std::string what;
  bool complete = false;  // `what` says it all; otherwise the situation is added
};

/// Thread: the coordinator.
class EngineRun {
 public:
  EngineRun(std::shared_ptr<RunMemory> memory, std::span<const std::unique_ptr<Helper>> helpers,
            Parker& coordinator);

  /// Takes what ranks submitted. A failure is a broken protocol.
  [[nodiscard]] bool take_submissions(uint64_t now, RunFailure& failure) noexcept;
  [[nodiscard]] bool has_submissions() const noexcept;
  /// Starts the head if every rank is there; runs it at once if it is small. True if anything
  /// happened.
  bool start_ready() noexcept;
  /// One slice of the collective in progress (or one round of its ring). True if anything moved.
  bool advance() noexcept;
  [[nodiscard]] bool can_advance() const noexcept;
  /// Deadline of the head, or a rank that left: true with the failure filled.
  [[nodiscard]] bool overdue(uint64_t now, RunFailure& failure) const;
  /// Publishes the abort. The collective in progress, if any, is abandoned at the next slice
  /// border.
  Error abort(const RunFailure& failure);

  [[nodiscard]] RunMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] const RunMemory& memory() const noexcept { return *memory_; }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }
  /// True when no helper can touch the run's memory.
  [[nodiscard]] bool quiet() const noexcept;
  void member_left(uint32_t rank) noexcept { left_mask_ |= 1u << rank; }
  void forgive(uint64_t pause_ns) noexcept { matcher_.forgive(pause_ns); }
  void set_asleep(uint32_t value) noexcept {
    memory_->board()->engine.asleep.store(value, std::memory_order_seq_cst);
  }

  bool removing = false;

 private:
  [[nodiscard]] Active* free_active() noexcept;
  void prepare(Active& active, const Gathering& gathering) noexcept;
  void share(Active& active) noexcept;
  void finish(Active& active) noexcept;
  void run_inline(Active& active) noexcept;
  void complete_all(const shm::CompletionFields& fields) noexcept;
  void refuse_all(Code code, int32_t culprit, const std::string& text) noexcept;
  [[nodiscard]] std::string situation() const;

  std::shared_ptr<RunMemory> memory_;
  std::span<const std::unique_ptr<Helper>> helpers_;
  Parker& coordinator_;
  Matcher matcher_;
  Ring ring_;
  std::array<shm::SubmissionReader, shm::kMaxDevices> readers_;
  std::array<shm::CompletionWriter, shm::kMaxDevices> writers_;
  std::array<shm::SubmissionLimits, shm::kMaxDevices> limits_;
  std::array<Active, 16> pool_;
  std::unique_ptr<double[]> block_sums_;
  uint64_t block_count_ = 0;
  Active* current_ = nullptr;
  uint32_t ring_owners_ = 1;
  uint32_t left_mask_ = 0;
  bool aborted_ = false;
};

}  // namespace npu::daemon
