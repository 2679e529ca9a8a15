// One rank's replica on its device: network, input slots and staging, all placed in the arena, and
// the collectives that keep it equal to the others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/device.hpp"
#include "client/data/loader.hpp"
#include "client/data/open.hpp"
#include "client/train/gradient_sum.hpp"
#include "client/train/snapshot.hpp"
#include "client/train/trainer.hpp"
#include "client/train/weight_average.hpp"
#include "model/network.hpp"

namespace npu::client {

inline constexpr int kInputSlots = 3;  // one in use, one ready, one being filled
inline constexpr int kStages = 2;      // one being written by the daemon, one free

/// Invariants: (1) nothing is allocated in the arena after create(); (2) parameters, momentum and
/// (after share_buffers) BN buffers are bit-equal on all ranks between steps. Thread: one.
class Replica {
 public:
  /// Plans the network, attaches, places everything, initialises from the job's seed.
  [[nodiscard]] static Result<std::unique_ptr<Replica>> create(const config::Job& job,
                                                               const RankOptions& options,
                                                               const data::Data& data);

  /// Rank 0 loads what checkpoint.resume asks for, or else model.pretrained; all ranks end with
  /// rank 0's state. `from` is set if resumed. Errors: not_found (exit 66) when a job that only
  /// evaluates has no weights; plan_resume's.
  [[nodiscard]] Result<TrainState> start(std::optional<std::string>& from);
  /// What the job takes over from the checkpoint that start() found, the same on all ranks.
  [[nodiscard]] const std::vector<config::Setting>& adopted() const noexcept { return adopted_; }

  /// Brings the BN buffers together as model.bn_buffers says, before they are looked at: rank0, all
  /// ranks get rank 0's, as DistributedDataParallel's broadcast_buffers has it; mean, all get the
  /// mean; local, nothing moves. A second call without a step in between does nothing.
  [[nodiscard]] Result<void> share_buffers();

  /// From here on the network is the one that is validated: with the buffers that a checkpoint
  /// would hold, on all ranks. leave_validation gives each rank its own back.
  [[nodiscard]] Result<void> enter_validation();
  void leave_validation() noexcept;

  /// Waits for a free stage, stages (rank 0), hands over. `best`: of the best epoch so far.
  [[nodiscard]] Result<void> commit(const TrainState& state, bool best);
  /// Tells `events` (rank 0) of the commits that became durable since the last call; `wait` for all
  /// of them.
  [[nodiscard]] Result<void> emit_commits(EventSink& events, bool wait);

  [[nodiscard]] size_t pending_commits() const noexcept { return pending_.size(); }

  [[nodiscard]] uint64_t digest() { return weights_digest(*network_, scratch_); }
  [[nodiscard]] CollectiveOptions collective_options() const;
  [[nodiscard]] model::Network& network() noexcept { return *network_; }
  [[nodiscard]] Communicator& world() noexcept { return device_->world(); }
  [[nodiscard]] Device& device() noexcept { return *device_; }
  /// The error of a collective inside of the network (model.sync_bn); its step is worth nothing.
  [[nodiscard]] Result<void> network_error() const;
  /// Null without train.ema_decay.
  [[nodiscard]] WeightAverage* average() noexcept { return average_ ? &*average_ : nullptr; }
  /// Null without train.accumulate.
  [[nodiscard]] GradientSum* gradient_sum() noexcept {
    return gradient_sum_ ? &*gradient_sum_ : nullptr;
  }
  /// Staging of an fp16 wire; empty when gradients travel as fp32.
  [[nodiscard]] std::span<uint16_t> wire() const noexcept { return wire_; }
  /// What the person who resumed should know; rank 0's, after start().
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  [[nodiscard]] std::span<const data::Slot> slots() const noexcept { return slots_; }
  [[nodiscard]] const config::Job& job() const noexcept { return job_; }
  [[nodiscard]] int rank() const noexcept { return options_.rank; }
  [[nodiscard]] const std::string& socket() const noexcept { return options_.socket; }
  [[nodiscard]] const std::string& last_checkpoint() const noexcept { return last_checkpoint_; }
  /// Path of the run's best checkpoint, empty if there is none (rank 0).
  [[nodiscard]] Result<std::string> best_checkpoint();
  /// A signal asked this rank to stop.
  [[nodiscard]] bool stop_requested() const noexcept {
    return options_.stop_signal != nullptr &&
           options_.stop_signal->load(std::memory_order_relaxed) != 0;
  }

 private:
  Replica(const config::Job& job, const RankOptions& options) : job_(job), options_(options) {}
  [[nodiscard]] Result<void> place(const data::ImageShape& shape);
  [[nodiscard]] Result<std::optional<TrainState>> load(std::optional<std::string>& from);
  [[nodiscard]] Result<std::optional<CheckpointFiles>> open_wanted();
  [[nodiscard]] Result<void> share_adopted();
  [[nodiscard]] Result<void> share(std::span<float> values);
  [[nodiscard]] Result<void> share_all();
  [[nodiscard]] Result<void> sync_batch_norm(ArenaAllocator& arena);
  void sum_over_ranks(std::span<double> values);
  [[nodiscard]] Result<void> bring_together(std::span<float> buffers);
  [[nodiscard]] bool has_local_buffers() const noexcept {
    return job_.model.bn_buffers == config::BnBuffers::kLocal;
  }
  [[nodiscard]] Result<void> share_counters(TrainState& state);

  struct Pending {
    std::future<Result<CheckpointReport>> future;
    double stall_ms = 0;  // how long the rank was held up by it
    bool best = false;
  };

  const config::Job& job_;
  const RankOptions& options_;
  data::ClassTable classes_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<Device> device_;
  std::vector<data::Slot> slots_;
  std::vector<SnapshotStage> stages_;
  std::span<float> scratch_;
  std::optional<GradientSum> gradient_sum_;
  std::optional<WeightAverage> average_;
  std::optional<Error> network_error_;
  std::span<float> own_buffers_;  // bn_buffers local: this rank's, while rank 0's are validated
  int64_t shared_at_ = -1;        // batches that the buffers had seen when they were shared
  std::span<uint16_t> wire_;
  std::span<int64_t> shared_;  // counters on their way between ranks
  std::span<uint8_t> adopted_text_;
  std::vector<config::Setting> adopted_;
  std::vector<Pending> pending_;
  uint64_t commits_ = 0;
  std::vector<std::string> notes_, warnings_;
  std::string last_checkpoint_;
};

}  // namespace npu::client
