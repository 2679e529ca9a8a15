// A run as the coordinator sees it: readers, writers, communicators, and the operations in
// progress. Private to the engine. engine_run.cpp takes, starts, executes and answers;
// engine_run_judge.cpp says why a run or an operation fails; engine_run_journal.cpp keeps what the
// next daemon would need; engine_run_trace.cpp keeps the flight recorder, engine_run_count.cpp the
// counters of the metrics.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/collectives/active.hpp"
#include "daemon/collectives/cost_model.hpp"
#include "daemon/collectives/group.hpp"
#include "daemon/collectives/helper.hpp"
#include "daemon/collectives/kick_limit.hpp"
#include "daemon/collectives/pair_matcher.hpp"
#include "daemon/collectives/run_memory.hpp"
#include "daemon/collectives/stream_queues.hpp"
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
            Parker& coordinator, const CostModel& costs);

  /// Takes what ranks submitted. A failure is a broken protocol.
  [[nodiscard]] bool take_submissions(uint64_t now, RunFailure& failure) noexcept;
  [[nodiscard]] bool has_submissions() const noexcept;
  /// Starts what every member asks for; runs it at once if it is small. True if anything happened.
  bool start_ready() noexcept;
  /// Large operations that start from now on are shared with the first `count` helpers.
  void share_with(size_t count) noexcept { sharing_ = count; }
  /// One slice of an operation in progress (or one round of its ring); they take turns. True if
  /// anything moved.
  bool advance() noexcept;
  [[nodiscard]] bool can_advance() const noexcept;
  /// Deadlines, ranks that left, cyclic waits; cheap, a few times a wait slice. True with the
  /// failure filled if the run must end. `warning` is filled when an operation waits unusually
  /// long.
  [[nodiscard]] bool judge(uint64_t now, RunFailure& failure, std::string& warning);
  /// From now on judge() ends the run with this failure once what ranks have asked for is answered.
  void drain(const RunFailure& failure, uint64_t now);
  /// Publishes the abort. Operations in progress are abandoned at the next slice border.
  Error abort(const RunFailure& failure);

  [[nodiscard]] RunMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] const RunMemory& memory() const noexcept { return *memory_; }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }
  /// True when no helper can touch the run's memory.
  [[nodiscard]] bool quiet() const noexcept;
  void member_left(uint32_t rank) noexcept { left_mask_ |= 1u << rank; }
  void forgive(uint64_t pause_ns) noexcept;
  void set_asleep(uint32_t value) noexcept {
    memory_->board()->engine.asleep.store(value, std::memory_order_seq_cst);
  }

  /// After a sleep: has the doorbell rung for nothing?
  void count_kicks(uint64_t now) noexcept;
  /// True while the doorbell is not listened to, because it rings without end.
  [[nodiscard]] bool muted() const noexcept { return muted_; }

  /// Once, of a run that was taken over: it has completed an operation since.
  [[nodiscard]] bool just_resumed() noexcept {
    const bool now = resuming_ && memory_->collectives_done.load(std::memory_order_relaxed) > 0;
    if (now) resuming_ = false;
    return now;
  }

  bool removing = false;

 private:
  /// An operation in progress: a communicator's head, or a pair.
  struct Running {
    Active active;
    Group* group = nullptr;  // null: a pair; kept after the end, while helpers may use its ring
    Pair pair;
    bool busy = false;
  };

  // engine_run_journal.cpp
  void take_over() noexcept;
  [[nodiscard]] bool told_before(const Pending& pending) const noexcept;
  [[nodiscard]] bool journaled() const noexcept;
  [[nodiscard]] Told told_of(const Group& group) const noexcept;
  [[nodiscard]] bool protect(Active& active, const Group& group) noexcept;
  void announce(const Told& told, const shm::CompletionFields& fields) noexcept;
  void announced() noexcept;

  [[nodiscard]] bool accept(Pending& pending, uint64_t now, RunFailure& failure) noexcept;
  [[nodiscard]] bool accept_pairwise(Group& group, Pending& pending) noexcept;
  [[nodiscard]] Running* free_running() noexcept;
  bool start_group(Group& group) noexcept;
  bool start_agreed(Group& group) noexcept;
  bool start_pair(const Pair& pair) noexcept;
  void launch(Running& running) noexcept;
  bool step(Running& running) noexcept;
  [[nodiscard]] bool can_step(const Running& running) const noexcept;
  void finish(Running& running) noexcept;
  void run_inline(Group& group) noexcept;
  void run_split(Group& group) noexcept;
  void run_destroy(Group& group) noexcept;
  void free_destroyed() noexcept;

  void answer(Pending& pending, const shm::CompletionFields& fields) noexcept;
  void complete_group(Group& group, shm::CompletionFields fields, uint64_t bytes = 0) noexcept;
  void complete_pair(const Pair& pair, shm::CompletionFields fields, uint64_t bytes = 0) noexcept;
  void refuse_group(Group& group, Code code, int32_t culprit, const std::string& text) noexcept;
  void refuse_pair(const Pair& pair, Code code, int32_t culprit, const std::string& text) noexcept;
  void refuse_alone(Pending& pending, Code code, const std::string& text) noexcept;

  // engine_run_judge.cpp
  bool refuse_if_wrong(Group& group) noexcept;
  bool refuse_if_wrong(const Pair& pair) noexcept;
  [[nodiscard]] bool judge_group(const Group& group, uint64_t now, RunFailure& failure);
  [[nodiscard]] bool drained();
  [[nodiscard]] bool judge_half(const PairMatcher::Half& half, uint64_t now, RunFailure& failure);
  void refuse_cycle(uint64_t now);
  [[nodiscard]] bool all_first(const Gathering& gathering) const noexcept;
  [[nodiscard]] uint64_t waiting_since(const Group& group) const noexcept;
  [[nodiscard]] std::string late_text(const Pending& first, uint32_t missing, uint32_t arrived,
                                      const std::string& last) const;
  [[nodiscard]] std::string situation() const;

  // engine_run_trace.cpp
  void trace_arrival(const Group& group, Gathering& gathering, bool first) noexcept;
  void trace_arrival(Pending& half) noexcept;
  void trace_start(Running& running) noexcept;
  void trace_end(const Group& group, const shm::CompletionFields& fields, uint64_t bytes) noexcept;
  void trace_end(const Pair& pair, const shm::CompletionFields& fields, uint64_t bytes) noexcept;
  void trace_abort(const RunFailure& failure) noexcept;

  // engine_run_count.cpp
  void count_end(const Group& group, const shm::CompletionFields& fields, uint64_t bytes, uint64_t end_ns) noexcept;
  void count_end(const Pair& pair, const shm::CompletionFields& fields, uint64_t end_ns) noexcept;
  void count_taken(uint32_t rank) noexcept;
  void count_answer(uint32_t rank, uint8_t code) noexcept;

  std::shared_ptr<RunMemory> memory_;
  std::span<const std::unique_ptr<Helper>> helpers_;
  size_t sharing_ = 0;
  Parker& coordinator_;
  const CostModel& costs_;
  std::array<shm::SubmissionReader, shm::kMaxDevices> readers_;
  std::array<shm::CompletionWriter, shm::kMaxDevices> writers_;
  StreamQueues queues_;
  GroupTable groups_;
  PairMatcher pairs_;
  std::vector<std::unique_ptr<Group>> destroyed_;  // until no helper can look at their rings
  std::array<Running, 16> pool_;
  Active small_;      // of payloads inside the descriptors; never shared
  size_t turn_ = 0;   // whose slice is next
  uint64_t now_ = 0;  // of the present round
  uint64_t judged_ns_ = 0;
  bool dirty_ = false;    // something arrived or ended: look for what can start
  bool starved_ = false;  // something could start but for a free place in the pool
  bool blocked_ = false;  // something waits for an earlier operation of a stream
  uint32_t left_mask_ = 0;
  std::optional<RunFailure> ending_;  // drain() was asked for
  uint64_t drain_ns_ = 0;
  bool aborted_ = false;
  // Of a run that was taken over: tickets below were taken by the daemon before, and are answered
  // unless its status page says otherwise.
  std::array<uint64_t, shm::kMaxDevices> taken_before_{};
  bool resuming_ = false;
  bool half_done_ = false;  // the journal holds a reduction of the daemon before
  KickLimit kicks_;
  uint32_t last_bell_ = 0;
  bool muted_ = false;
};

}  // namespace npu::daemon
