#include "client/train/replica.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <thread>

#include "client/api/admin.hpp"
#include "client/train/checkpoint_dir.hpp"
#include "client/train/gradient_reducer.hpp"
#include "client/train/loss_scale.hpp"
#include "client/train/pretrained.hpp"
#include "client/train/recipe.hpp"
#include "client/train/resume_policy.hpp"
#include "config/load.hpp"

namespace npu::client {
namespace {

constexpr uint64_t kSlack = 64 * 1024;  // alignment of a few dozen pieces
constexpr size_t kSharedCounters = 32;
constexpr size_t kAdoptedBytes = 16 * 1024;  // settings as text; a zero ends it

bool half_wire(const config::Job& job) { return job.collectives.allreduce_dtype == "fp16"; }

/// Only rank 0 stages checkpoints, and only if there are any.
CheckpointPlan checkpoint_plan(const config::Job& job, int rank) {
  const bool saves = saves_checkpoints(job) || keeps_in_memory(job);
  return {.stages = rank == 0 && saves,
          .compares = job.world() > 1 && (saves || job.train.check_replicas_every > 0),
          // Rank 0's count, unless the mean does: what others have is theirs until a validation.
          .parts = {.buffers = job.model.bn_buffers == config::BnBuffers::kMean,
                    .average = job.train.ema_decay > 0}};
}

uint64_t arena_bytes(const model::Network& network, const data::ImageShape& shape,
                     const config::Job& job, int rank) {
  const auto batch = static_cast<uint64_t>(job.rank_batch());
  const uint64_t images = batch * shape.elements() * sizeof(float);
  const uint64_t labels = batch * sizeof(int32_t);
  const bool averages = job.train.ema_decay > 0;
  const uint64_t extra = (job.train.accumulate > 1 ? GradientSum::bytes(network) : 0) +
                         (averages ? WeightAverage::bytes(network) : 0) +
                         network.memory().bn_buffers + network.sync_staging() * sizeof(double);
  // An upper bound: the gradients have the metrics slot besides.
  const uint64_t wire = half_wire(job) ? network.memory().gradients / 2 : 0;
  return network.memory().total() + kInputSlots * (images + labels) +
         Checkpointer::bytes(network, checkpoint_plan(job, rank)) +
         largest_entry(network) * sizeof(float) + extra + wire + kAdoptedBytes + kSlack;
}

AttachOptions attach_options(const config::Job& job, const RankOptions& options, uint64_t bytes) {
  return {.socket = options.socket,
          .run = job.name,
          .run_key = options.run_key,
          .world = static_cast<uint32_t>(job.world()),
          .rank = static_cast<uint32_t>(options.rank),
          .device = static_cast<uint32_t>(job.devices[static_cast<size_t>(options.rank)]),
          .arena_bytes = bytes,
          .job_hash = config::job_hash(job),
          .join_timeout = job.collectives.timeout,
          .reconnect = job.collectives.reconnect,
          .on_failure = options.on_failure};
}

/// A daemon that dies while it is asked is asked again when it is back.
Result<CheckpointFiles> open_patiently(const config::Job& job, const std::string& socket,
                                       int64_t step) {
  const Deadline deadline = Deadline::after(job.collectives.reconnect);
  for (;;) {
    auto opened = open_checkpoint(socket, job.name, step);
    const bool lost = !opened && opened.error().code == Code::kUnavailable &&
                      opened.error().exit == Exit::kNoDaemon;
    if (!lost || job.collectives.reconnect.count() <= 0 || deadline.passed()) return opened;
    std::this_thread::sleep_for(milliseconds(50));
  }
}

/// Batches that batch norm has seen: moves with every pass, alike on all ranks.
int64_t batches_seen(const model::Network& network) {
  for (size_t i = 0; i < network.state().size(); ++i) {
    if (network.state()[i].kind == model::StateKind::kBatchesTracked) {
      return network.batches_tracked(i);
    }
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::create(const config::Job& job, const RankOptions& options,
                                                 const data::Data& data) {
  std::unique_ptr<Replica> replica(new Replica(job, options));
  const data::ImageShape shape = data.shape();
  replica->classes_ = data.classes;
  NPU_TRY(auto network, model::Network::plan(network_config(job, options.threads, shape)));
  replica->network_ = std::make_unique<model::Network>(std::move(network));
  const uint64_t bytes = arena_bytes(*replica->network_, shape, job, options.rank);
  NPU_TRY(replica->device_, Device::attach(attach_options(job, options, bytes)));
  NPU_TRY_VOID(replica->place(shape));
  replica->network_->initialise(job.seed);
  return replica;
}

Result<void> Replica::place(const data::ImageShape& shape) {
  ArenaAllocator arena(device_->arena());
  NPU_TRY_VOID(network_->bind(arena));
  const auto batch = static_cast<uint64_t>(job_.rank_batch());
  for (int i = 0; i < kInputSlots; ++i) {
    NPU_TRY(const auto images, arena.take<float>(batch * shape.elements()));
    NPU_TRY(const auto labels, arena.take<int32_t>(batch));
    slots_.push_back({images.data(), labels.data()});
  }
  NPU_TRY(scratch_, arena.take<float>(largest_entry(*network_)));
  if (job_.train.accumulate > 1) {
    gradient_sum_.emplace();
    NPU_TRY_VOID(gradient_sum_->place(*network_, arena));
  }
  if (job_.train.ema_decay > 0) {
    average_.emplace();
    NPU_TRY_VOID(average_->place(*network_, arena, job_.train.ema_decay));
  }
  if (job_.model.sync_bn && job_.world() > 1) NPU_TRY_VOID(sync_batch_norm(arena));
  if (has_local_buffers()) {
    NPU_TRY(own_buffers_, arena.take<float>(network_->bn_buffers().size()));
  }
  NPU_TRY(shared_, arena.take<int64_t>(kSharedCounters));
  NPU_TRY(adopted_text_, arena.take<uint8_t>(kAdoptedBytes));
  if (half_wire(job_)) {
    NPU_TRY(wire_, arena.take<uint16_t>(wire_elements(*network_)));
  }
  NPU_TRY(checkpointer_, Checkpointer::create(*network_, average(), arena, *device_,
                                              checkpoint_plan(job_, rank())));
  return {};
}

Result<void> Replica::sync_batch_norm(ArenaAllocator& arena) {
  NPU_TRY(const auto staging, arena.take<double>(network_->sync_staging()));
  network_->sync_batch_norm({.ranks = job_.world(),
                             .staging = staging,
                             .sum = [this](std::span<double> v) { sum_over_ranks(v); }});
  return {};
}

void Replica::sum_over_ranks(std::span<double> values) {
  if (network_error_) return;
  auto work = world().all_reduce(values.data(), values.data(), values.size(), DType::kFloat64,
                                 ReduceOp::kSum, collective_options());
  if (!work) {
    network_error_ = work.error();
    return;
  }
  if (const auto done = work->wait(); !done) network_error_ = done.error();
}

Result<void> Replica::network_error() const {
  if (network_error_) return tl::unexpected(*network_error_);
  return {};
}

CollectiveOptions Replica::collective_options() const {
  // The environment goes before the job file; what is left open here, the device fills in from it.
  const CollectiveEnv& env = device_->environment();
  CollectiveOptions options;
  if (!env.timeout) options.timeout = job_.collectives.timeout;
  if (env.of(shm::Op::kAllReduce) != shm::Algorithm::kAuto) return options;
  switch (job_.collectives.algorithm) {
    case config::Algorithm::kAuto:
      break;
    case config::Algorithm::kRing:
      options.algorithm = shm::Algorithm::kRing;
      break;
    case config::Algorithm::kDirect:
      options.algorithm = shm::Algorithm::kDirect;
      break;
  }
  return options;
}

Result<void> Replica::share(std::span<float> values) {
  NPU_TRY(Work work, world().broadcast(values.data(), values.size(), DType::kFloat32, 0,
                                       collective_options()));
  NPU_TRY_VOID(work.wait());
  return {};
}

Result<void> Replica::bring_together(std::span<float> buffers) {
  switch (job_.model.bn_buffers) {
    case config::BnBuffers::kRank0:
      return share(buffers);
    case config::BnBuffers::kMean: {
      NPU_TRY(Work work,
              world().all_reduce(buffers.data(), buffers.data(), buffers.size(), DType::kFloat32,
                                 ReduceOp::kMean, collective_options()));
      NPU_TRY_VOID(work.wait());
      return {};
    }
    case config::BnBuffers::kLocal:
      return {};
  }
  return {};
}

Result<void> Replica::share_buffers() {
  // Once is enough, and the mean of equal numbers may differ from them in the last bit.
  const int64_t seen = batches_seen(*network_);
  if (seen == shared_at_) return {};
  NPU_TRY_VOID(bring_together(network_->bn_buffers()));
  if (average_) NPU_TRY_VOID(bring_together(average_->buffers()));
  shared_at_ = seen;
  return {};
}

Result<void> Replica::enter_validation() {
  NPU_TRY_VOID(share_buffers());
  if (!has_local_buffers()) return {};
  std::ranges::copy(network_->bn_buffers(), own_buffers_.begin());
  return share(network_->bn_buffers());
}

void Replica::leave_validation() noexcept {
  if (has_local_buffers()) std::ranges::copy(own_buffers_, network_->bn_buffers().begin());
}

/// The checkpoint that checkpoint.resume asks for; nothing when there need not be one.
Result<std::optional<CheckpointFiles>> Replica::open_wanted() {
  using config::ResumeKind;
  std::optional<CheckpointFiles> files;
  switch (job_.checkpoint.resume) {
    case ResumeKind::kNever:
      break;
    case ResumeKind::kPath: {
      NPU_TRY(files, open_checkpoint_dir(job_.checkpoint.resume_path));
      break;
    }
    case ResumeKind::kBest: {
      NPU_TRY(files, open_patiently(job_, options_.socket, kBestStep));
      break;
    }
    case ResumeKind::kAuto: {
      // An evaluation is of something that will still be there tomorrow.
      const int64_t wanted = job_.train.evaluate ? kNewestStep : kResumeStep;
      auto opened = open_patiently(job_, options_.socket, wanted);
      if (!opened && opened.error().code == Code::kNotFound) break;
      if (!opened) return tl::unexpected(opened.error());
      files = std::move(*opened);
      break;
    }
  }
  return files;
}

Result<std::optional<TrainState>> Replica::load(std::optional<std::string>& from) {
  NPU_TRY(std::optional<CheckpointFiles> files, open_wanted());
  if (!files) return std::optional<TrainState>();
  from = files->path;
  NPU_TRY(ParsedState parsed, read_state(*files));
  const CheckpointIdentity job = identity_of(job_, classes_);
  NPU_TRY_VOID(check_class_table(parsed.identity, job, *from));
  if (!files->warning.empty()) {
    warnings_.push_back("newer checkpoints were skipped: " + files->warning);
  }
  if (job_.train.evaluate) {
    NPU_TRY_VOID(check_evaluation(parsed.identity, job_, *from));
  } else {
    NPU_TRY(ResumePlan plan, plan_resume(parsed.identity, job_, *from));
    adopted_ = std::move(plan.adopted);
    notes_ = std::move(plan.notes);
    std::ranges::move(plan.warnings, std::back_inserter(warnings_));
    ResumedScaler resumed =
        resumed_scaler({parsed.identity.amp, parsed.state.scaler}, job_.precision);
    parsed.state.scaler = resumed.scaler;
    std::ranges::move(resumed.warnings, std::back_inserter(warnings_));
    apply_start_epoch(job_, parsed.identity.start_epoch, parsed.state);
  }
  NPU_TRY_VOID(restore(*network_, average(), std::move(*files), scratch_));
  return std::optional<TrainState>(parsed.state);
}

/// Rank 0's settings to the others, as text: lists have no fixed size.
Result<void> Replica::share_adopted() {
  const std::string text = settings_text(adopted_);
  if (text.size() >= adopted_text_.size()) {
    return fail(Code::kResourceExhausted,
                "resume: the checkpoint's settings that stay in force take {} bytes, at most {} "
                "are possible; shorten schedule.milestones with checkpoint.resume_override",
                text.size(), adopted_text_.size() - 1);
  }
  std::ranges::fill(adopted_text_, uint8_t{0});
  std::ranges::copy(text, adopted_text_.begin());
  NPU_TRY(Work work, world().broadcast(adopted_text_.data(), adopted_text_.size(), DType::kUint8, 0,
                                       collective_options()));
  NPU_TRY_VOID(work.wait());
  const auto* begin = reinterpret_cast<const char*>(adopted_text_.data());
  adopted_ = settings_of_text({begin, ::strnlen(begin, adopted_text_.size())});
  return {};
}

/// Broadcasts rank 0's counters; a row a field, doubles as their bits.
Result<void> Replica::share_counters(TrainState& s) {
  const model::GradScalerState scaler = s.scaler.value_or(model::GradScalerState{});
  const std::array<int64_t, kSharedCounters> mine = {s.next_epoch,
                                                     s.step_in_epoch,
                                                     s.global_step,
                                                     s.sums.samples,
                                                     s.best_epoch,
                                                     s.skipped_steps,
                                                     std::bit_cast<int64_t>(s.sums.loss),
                                                     std::bit_cast<int64_t>(s.sums.top1),
                                                     std::bit_cast<int64_t>(s.sums.top5),
                                                     std::bit_cast<int64_t>(s.best_acc1),
                                                     std::bit_cast<int64_t>(s.last_acc1),
                                                     s.scaler.has_value(),
                                                     scaler.dynamic,
                                                     std::bit_cast<int32_t>(scaler.scale),
                                                     std::bit_cast<int64_t>(scaler.growth_factor),
                                                     std::bit_cast<int64_t>(scaler.backoff_factor),
                                                     scaler.growth_interval,
                                                     scaler.growth_tracker,
                                                     scaler.skipped_steps,
                                                     scaler.consecutive_skips};
  std::copy(mine.begin(), mine.end(), shared_.begin());
  NPU_TRY(Work work, world().broadcast(shared_.data(), shared_.size(), DType::kInt64, 0,
                                       collective_options()));
  NPU_TRY_VOID(work.wait());
  s.next_epoch = static_cast<int>(shared_[0]);
  s.step_in_epoch = shared_[1];
  s.global_step = shared_[2];
  s.sums = {std::bit_cast<double>(shared_[6]), std::bit_cast<double>(shared_[7]),
            std::bit_cast<double>(shared_[8]), shared_[3]};
  s.best_epoch = static_cast<int>(shared_[4]);
  s.skipped_steps = shared_[5];
  s.best_acc1 = std::bit_cast<double>(shared_[9]);
  s.last_acc1 = std::bit_cast<double>(shared_[10]);
  s.scaler.reset();
  if (shared_[11] != 0) {
    s.scaler = {.dynamic = shared_[12] != 0,
                .scale = std::bit_cast<float>(static_cast<int32_t>(shared_[13])),
                .growth_factor = std::bit_cast<double>(shared_[14]),
                .backoff_factor = std::bit_cast<double>(shared_[15]),
                .growth_interval = shared_[16],
                .growth_tracker = shared_[17],
                .skipped_steps = shared_[18],
                .consecutive_skips = shared_[19]};
  }
  return {};
}

Result<TrainState> Replica::start(std::optional<std::string>& from) {
  TrainState state;
  state.scaler = initial_scaler(job_.precision);
  if (rank() == 0) {
    NPU_TRY(const auto loaded, load(from));
    if (loaded) {
      state = *loaded;
    } else if (job_.model.pretrained) {
      NPU_TRY(const SafetensorsFile file, open_pretrained(*job_.model.pretrained));
      NPU_TRY_VOID(load_pretrained(*network_, file, job_.model.ignore_head, scratch_));
    } else if (job_.train.evaluate) {
      return fail(Code::kNotFound,
                  "evaluate job '{}': no weights: it has no checkpoint here; name one (npu eval "
                  "--checkpoint) or a file with weights (--weights, model.pretrained)",
                  job_.name);
    }
    if (!loaded) apply_start_epoch(job_, std::nullopt, state);
  }
  NPU_TRY_VOID(share_counters(state));
  NPU_TRY_VOID(share_adopted());
  if (state.scaler) NPU_TRY_VOID(model::check_grad_scaler(*state.scaler));
  if (average_ && !from) average_->start(*network_);
  NPU_TRY_VOID(share_all());
  return state;
}

/// Always, resumed or not: equal weights at step 0 are checked by construction, not by trust in
/// equal seeds.
Result<void> Replica::share_all() {
  NPU_TRY_VOID(share(network_->parameters_flat()));
  NPU_TRY_VOID(share(network_->momentum_flat()));
  NPU_TRY_VOID(share(network_->bn_buffers()));
  if (average_) {
    NPU_TRY_VOID(share(average_->parameters()));
    NPU_TRY_VOID(share(average_->buffers()));
  }
  network_->parameters_changed();
  shared_at_ = batches_seen(*network_);
  return {};
}

Result<void> Replica::commit(const TrainState& state, bool best, EventSink* events, SaveTo to) {
  Checkpointer::Request request{.step = state.global_step,
                                .keep = static_cast<uint32_t>(job_.checkpoint.keep),
                                .best = best,
                                .to = to};
  NPU_TRY_VOID(checkpointer_->make_room(events));
  // Rank 0 has what is saved, unless it is the mean: then all must come, which holds up the first.
  if (job_.model.bn_buffers == config::BnBuffers::kMean) NPU_TRY_VOID(share_buffers());
  if (rank() == 0) {
    request.state_json = state_to_json(state, identity_of(job_, classes_));
    if (request.state_json.size() > SnapshotStage::kStateBytes) {
      return fail(Code::kResourceExhausted,
                  "checkpoint step {}: its state takes {} bytes, at most {} are possible; shorten "
                  "the lists of the job",
                  state.global_step, request.state_json.size(), SnapshotStage::kStateBytes);
    }
  }
  checkpointer_->start(request);
  return {};
}

void Replica::check(int64_t step) {
  if (job_.world() > 1) checkpointer_->start({.step = step, .check_only = true});
}

Result<std::string> Replica::best_checkpoint() {
  if (rank() != 0 || !saves_checkpoints(job_)) return std::string();
  auto all = list_checkpoints(options_.socket, job_.name, false);
  if (!all && all.error().code == Code::kNotFound) return std::string();
  if (!all) return tl::unexpected(all.error());
  for (const CheckpointInfo& c : *all) {
    if (c.best) return c.path;
  }
  return std::string();
}

}  // namespace npu::client
