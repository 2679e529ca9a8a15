// Checkpoints and replica checks of one rank, made beside training: a helper thread copies and
// hashes while the next step computes; what changes the weights waits until they are copied.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/api/device.hpp"
#include "client/render/events.hpp"
#include "client/train/replica_rows.hpp"
#include "client/train/snapshot.hpp"
#include "client/train/weight_average.hpp"

namespace npu::client {

inline constexpr size_t kStages = 2;  // one being written by the daemon, one being filled

/// Where a snapshot goes.
enum class SaveTo : uint8_t {
  kDisk,
  kMemory,  // of the daemon: outlives the ranks, not the daemon
};

/// What a rank does at a checkpoint.
struct CheckpointPlan {
  bool stages = false;    // it stages the snapshot: rank 0 of a job that saves, wherever
  bool compares = false;  // there is another rank to be equal to
  ReplicaRows::Parts parts;
};

/// Invariants: (1) between start() and settle() nobody changes parameters, momentum or the average;
/// (2) a stage is filled only after the commit that used it is over; (3) a checkpoint that could
/// not be written does not end the job, unless it is the last one on disk. Thread: the rank's.
class Checkpointer {
 public:
  /// Arena bytes that create() takes.
  [[nodiscard]] static uint64_t bytes(const model::Network& network, const CheckpointPlan& plan);
  /// Network: bound. `average` may be null. Errors: the arena's, oneDNN's.
  [[nodiscard]] static Result<std::unique_ptr<Checkpointer>> create(model::Network& network,
                                                                    const WeightAverage* average,
                                                                    ArenaAllocator& arena,
                                                                    Device& device,
                                                                    const CheckpointPlan& plan);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  struct Request {
    int64_t step = 0;
    uint32_t keep = 1;
    bool best = false;
    bool check_only = false;  // compare the replicas, save nothing
    SaveTo to = SaveTo::kDisk;
    std::string state_json{};  // where a stage is filled: at most SnapshotStage::kStateBytes
    Clock::time_point begin = Clock::now();  // since when the rank is held up
  };
  /// Takes what the next forward pass changes and lets the helper do the rest. Needs a free stage:
  /// make_room() first.
  void start(const Request& request);

  /// Waits until the helper needs the weights no more. Cost: one load while there is nothing to
  /// wait for.
  void settle() noexcept {
    if (busy_.load(std::memory_order_acquire) == kCopying) [[unlikely]]
      wait_while(kCopying);
  }

  /// Until a stage is free, tells of what became durable. Errors: emit()'s.
  [[nodiscard]] Result<void> make_room(EventSink* events);
  /// Tells `events` (null: nobody) of the commits that are over since the last call; `wait` for all
  /// of them. One that could not be written is a warning. Errors: the run's; data_loss (a torn
  /// snapshot: something wrote where nobody should); a snapshot that was refused.
  [[nodiscard]] Result<void> emit(EventSink* events, bool wait);

  /// After emit() of all: whether the last checkpoint on disk is durable. Errors: as the store
  /// said, with its exit code: 73 for want of room or permission, 74 for a disk that fails.
  [[nodiscard]] Result<void> verdict() const;
  /// Path of the newest durable one of this process, empty if there is none.
  [[nodiscard]] const std::string& newest() const noexcept { return newest_; }

 private:
  struct Pending {
    int64_t step = 0;
    bool best = false;
    bool check_only = false;
    SaveTo to = SaveTo::kDisk;
    double stall_ms = 0;                           // how long the rank was held up by it
    std::future<Result<CheckpointReport>> future;  // the helper's until it is idle again
  };

  Checkpointer(model::Network& network, const WeightAverage* average, Device& device,
               model::StateExporter exporter);
  // What the helper is at. Hashing reads what was copied; the weights may change again.
  static constexpr uint32_t kIdle = 0, kCopying = 1, kHashing = 2, kEnding = 3;

  void copy_moving_state();
  void wait_while(uint32_t state) noexcept;
  /// Until the message is on its way, too.
  void wait_until_idle() noexcept;
  void help();
  void hand_over();
  void enter(uint32_t state) noexcept;
  [[nodiscard]] size_t staged() const noexcept;
  [[nodiscard]] Result<void> take(Pending& over, EventSink* events);
  void take_memory(const Pending& over, const Result<CheckpointReport>& report, EventSink* events);
  [[nodiscard]] Result<void> failed(int64_t step, const Error& error, EventSink* events);

  model::Network& network_;
  const WeightAverage* average_;
  Device& device_;
  model::StateExporter exporter_;
  std::vector<SnapshotStage> stages_;
  std::vector<ReplicaRows> rows_;  // one for each commit that may be open
  std::vector<float> buffers_, average_buffers_;
  std::vector<int64_t> batches_tracked_;
  SnapshotSource source_;

  std::deque<Pending> pending_;  // oldest first; only the newest one's future may be missing
  uint64_t commits_ = 0, saves_ = 0;
  // What the helper fills and sends, and where the answer goes.
  shm::CheckpointCommit commit_{};
  Pending* current_ = nullptr;

  std::string newest_;
  int failures_ = 0;            // in a row, on disk
  bool memory_failed_ = false;  // the last one in memory
  std::optional<Error> failure_;
  int64_t failed_step_ = 0;

  // Written by the rank to start the helper and to end it, by the helper in between.
  std::atomic<uint32_t> busy_{kIdle};
  std::thread helper_;
};

}  // namespace npu::client
