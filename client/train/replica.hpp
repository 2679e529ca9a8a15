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
#include "client/train/checkpointer.hpp"
#include "client/train/gradient_sum.hpp"
#include "client/train/snapshot.hpp"
#include "client/train/trainer.hpp"
#include "client/train/weight_average.hpp"
#include "model/network.hpp"

namespace npu::client {

inline constexpr int kInputSlots = 3;  // one in use, one ready, one being filled

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
  /// mean; local, nothing moves. A checkpoint looks at rank 0's only, so it needs none of it but
  /// the mean. A second call without a step in between does nothing.
  [[nodiscard]] Result<void> share_buffers();

  /// From here on the network is the one that is validated: with the buffers that a checkpoint
  /// would hold, on all ranks. leave_validation gives each rank its own back.
  [[nodiscard]] Result<void> enter_validation();
  void leave_validation() noexcept;

  /// Waits for a free stage, then hands the state as it is now to the helper, which stages it (rank
  /// 0) while the next step computes. `best`: of the best epoch so far. `events`: null but on rank
  /// 0. Errors: emit_commits'.
  [[nodiscard]] Result<void> commit(const TrainState& state, bool best, EventSink* events = nullptr,
                                    SaveTo to = SaveTo::kDisk);
  /// Has the daemon compare parameters, momentum and averages as they are now, in the same way. A
  /// difference ends the run.
  void check(int64_t step);
  /// Call before parameters, momentum or the average change.
  void settle() noexcept { checkpointer_->settle(); }
  /// Tells `events` (rank 0) of the commits that became durable since the last call; `wait` for all
  /// of them. Errors: as Checkpointer::emit.
  [[nodiscard]] Result<void> emit_commits(EventSink& events, bool wait) {
    return checkpointer_->emit(rank() == 0 ? &events : nullptr, wait);
  }
  /// Whether the last checkpoint is durable, after emit_commits of all: the same on all ranks.
  [[nodiscard]] Result<void> saved() const { return checkpointer_->verdict(); }

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
  [[nodiscard]] const std::string& last_checkpoint() const noexcept {
    return checkpointer_->newest();
  }
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

  const config::Job& job_;
  const RankOptions& options_;
  data::ClassTable classes_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<Device> device_;
  std::vector<data::Slot> slots_;
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
  std::vector<std::string> notes_, warnings_;
  std::unique_ptr<Checkpointer> checkpointer_;  // last: its helper uses what is above
};

}  // namespace npu::client
