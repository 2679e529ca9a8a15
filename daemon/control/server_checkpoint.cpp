// Checkpoints: replica digests are compared, the snapshot of rank 0 goes to the store or stays in
// memory.
#include <algorithm>
#include <cstring>

#include "daemon/control/replica_check.hpp"
#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "shm/format/digest.hpp"
#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

constexpr uint32_t kMaxTensors = 20'000;
constexpr uint64_t kMaxStateBytes = 1 << 20;

/// [offset, offset + bytes) of an arena, or empty if it is not inside.
std::optional<std::span<const std::byte>> arena_range(const RankMemory& rank, uint64_t offset,
                                                      uint64_t bytes) {
  const uint64_t size = rank.arena.size();
  if (bytes > size || offset > size - bytes) return std::nullopt;
  return std::span<const std::byte>(rank.arena.data() + offset, bytes);
}

/// One row of the table that the client staged. The row is a private copy; only the tensor's bytes
/// stay where a client can still write, and the store hashes what it copies.
Result<SnapshotTensor> read_row(const RankMemory& rank, const shm::SnapshotTensor& row) {
  SnapshotTensor tensor;
  tensor.name = shm::get_text(row.name);
  tensor.dtype = static_cast<DType>(row.dtype);
  tensor.xxh3_64 = row.digest;
  if (row.rank > 4 || row.file > 1) {
    return fail(Code::kInvalidArgument,
                "checkpoint: tensor '{}' has {} dimensions in file {}, at most 4 in file 0 or 1",
                printable(tensor.name), row.rank, row.file);
  }
  for (uint32_t i = 0; i < row.rank; ++i) {
    if (row.shape[i] < 0) {
      return fail(Code::kInvalidArgument, "checkpoint: tensor '{}' has size {} in dimension {}",
                  printable(tensor.name), row.shape[i], i);
    }
    tensor.shape.push_back(static_cast<uint64_t>(row.shape[i]));
  }
  const auto bytes = arena_range(rank, row.offset, row.bytes);
  if (!bytes) {
    return fail(Code::kInvalidArgument,
                "checkpoint: tensor '{}' at {} + {} bytes is outside the arena of {} bytes",
                printable(tensor.name), row.offset, row.bytes, rank.arena.size());
  }
  tensor.source = *bytes;
  return tensor;
}

Result<std::shared_ptr<Snapshot>> read_snapshot(const Run& run,
                                                const shm::CheckpointCommit& commit) {
  const RankMemory& rank = run.memory->ranks[0];
  if (commit.table_count == 0 || commit.table_count > kMaxTensors ||
      commit.state_bytes > kMaxStateBytes || commit.step < 0) {
    return fail(Code::kInvalidArgument,
                "checkpoint step {}: {} tensors and {} bytes of state; 1 to {} tensors and "
                "at most {} bytes are accepted",
                commit.step, commit.table_count, commit.state_bytes, kMaxTensors, kMaxStateBytes);
  }
  const auto table =
      arena_range(rank, commit.table_offset, commit.table_count * sizeof(shm::SnapshotTensor));
  const auto state = arena_range(rank, commit.state_offset, commit.state_bytes);
  if (!table || !state) {
    return fail(Code::kInvalidArgument, "checkpoint step {}: its tables are outside the arena",
                commit.step);
  }
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->uid = static_cast<uid_t>(run.uid);
  snapshot->run = run.name;
  snapshot->step = static_cast<uint64_t>(commit.step);
  snapshot->best = commit.best != 0;
  snapshot->keep = commit.keep == 0 ? 1 : commit.keep;
  snapshot->weights_digest = commit.weights_digest;
  snapshot->state_json.assign(reinterpret_cast<const char*>(state->data()), state->size());
  for (uint32_t i = 0; i < commit.table_count; ++i) {
    shm::SnapshotTensor row;
    std::memcpy(&row, table->data() + i * sizeof(row), sizeof(row));
    NPU_TRY(SnapshotTensor tensor, read_row(rank, row));
    (row.file == 0 ? snapshot->model : snapshot->optimizer).push_back(std::move(tensor));
  }
  return snapshot;
}

const char* purpose(bool check_only, bool memory) {
  if (check_only) return "a check of the replicas";
  return memory ? "a checkpoint in memory" : "a checkpoint";
}

}  // namespace

void Server::Impl::on_commit(Session& session, const shm::Received& message) {
  const auto commit = message.as<shm::CheckpointCommit>();
  const bool memory = commit.memory != 0;
  if (commit.memory > 1 || commit.best > 1 || commit.check_only > 1 ||
      (memory && (commit.best != 0 || commit.check_only != 0))) {
    expel(session.id, "set reserved bytes");
    return;
  }
  Run* run = session.run != 0 ? table_.find(session.run) : nullptr;
  if (run == nullptr || run->state != shm::RunState::kRunning) {
    reply_error(session, commit.header.request,
                Error{Code::kAborted, "checkpoint: this connection is in no running run",
                      Exit::kPeerFailed});
    return;
  }
  // A rank's n-th commit belongs with the n-th of each other: collectives keep the ranks together,
  // but not to the message.
  OpenCommits& open = run->commits;
  const uint64_t index = open.next[session.rank];
  if (commit.index != index) {
    abort_run(*run, Code::kFailedPrecondition, static_cast<int32_t>(session.rank),
              fmt::format("checkpoint: rank {} sent commit {}, expected {}", session.rank,
                          commit.index, index));
    return;
  }
  open.next[session.rank] = open.next_of(session.rank, index + 1);
  for (uint32_t r = 0; r < run->world; ++r) {
    if (open.answered_before(r, index)) return answer_from_store(session, commit);
  }
  CommitGathering* const place = open.find(index);
  if (place == nullptr) {
    abort_run(*run, Code::kFailedPrecondition, static_cast<int32_t>(session.rank),
              fmt::format("checkpoint: rank {} is {} commits ahead of others, at most {} are taken",
                          session.rank, kOpenCommits, kOpenCommits));
    return;
  }
  CommitGathering& gathering = *place;
  if (gathering.arrived_mask == 0) {
    gathering.index = index;
    gathering.step = commit.step;
    gathering.check_only = commit.check_only != 0;
    gathering.memory = memory;
  }
  if (gathering.step != commit.step || gathering.memory != memory ||
      gathering.check_only != (commit.check_only != 0)) {
    abort_run(*run, Code::kFailedPrecondition, static_cast<int32_t>(session.rank),
              fmt::format("checkpoint: rank {} sent {} of step {}, others {} of step {}",
                          session.rank, purpose(commit.check_only != 0, memory), commit.step,
                          purpose(gathering.check_only, gathering.memory), gathering.step));
    return;
  }
  gathering.arrived_mask |= 1u << session.rank;
  gathering.by_rank[session.rank] = commit;
  if (gathering.arrived_mask == (1u << run->world) - 1) {
    open.any = true;
    commit_arrived(*run, std::exchange(gathering, {}));
  }
}

void Server::Impl::commit_arrived(Run& run, const CommitGathering& gathering) {
  std::array<std::span<const std::byte>, shm::kMaxDevices> arenas;
  for (uint32_t r = 0; r < run.world; ++r) {
    const auto& arena = run.memory->ranks[r].arena;
    arenas[r] = {arena.data(), arena.size()};
  }
  if (const auto found = compare_replicas(gathering, run.world, arenas)) {
    // Silent divergence: nothing is published, the run stops with the rank's name.
    abort_run(run, Code::kDataLoss, static_cast<int32_t>(found->rank), found->message, true);
    return;
  }
  if (gathering.check_only) {
    answer_commit(run.id, gathering, CommitReport{});
    return;
  }
  if (run.commits_writing >= kMaxCommitsOfRun) {
    answer_commit(run.id, gathering,
                  fail(Code::kResourceExhausted,
                       "checkpoint step {}: 1 more is wanted, {} of run '{}' are being written, the "
                       "limit is {}; wait for one",
                       gathering.step, run.commits_writing, run.name, kMaxCommitsOfRun));
    return;
  }
  const shm::CheckpointCommit& first = gathering.by_rank[0];
  auto snapshot = read_snapshot(run, first);
  if (!snapshot) {
    answer_commit(run.id, gathering, tl::unexpected(snapshot.error()));
    return;
  }
  if (gathering.memory) {
    keep_snapshot(run, gathering, std::move(*snapshot));
  } else {
    write_snapshot(run, gathering, std::move(*snapshot));
  }
}

void Server::Impl::write_snapshot(Run& run, const CommitGathering& gathering,
                                  std::shared_ptr<Snapshot> snapshot) {
  if (auto room = begin_staged(run.uid, *snapshot); !room) {
    answer_commit(run.id, gathering, tl::unexpected(room.error()));
    return;
  }
  const uint64_t staged_bytes = snapshot->tensor_bytes();
  snapshot->user_limit_bytes = quota_of(run.uid)[QuotaKind::kCheckpoints];
  ++run.commits_writing;
  checkpoints_->post([this, id = run.id, uid = run.uid, staged_bytes, gathering,
                      snapshot = std::move(snapshot),
                      memory = run.memory]() mutable -> Worker::Completion {
    auto report = std::make_shared<Result<CommitReport>>(store_->commit(*snapshot));
    if (*report) {
      kept_.take(snapshot->uid, snapshot->run);  // older than this one: commits come in order
    } else {
      report->error().message += fmt::format(
          "; the store is '{}', earlier checkpoints in it are intact", options.state_dir);
    }
    snapshot.reset();
    // The memory is let go on the control server's thread at the earliest: the run may be gone by
    // now.
    return [this, id, uid, staged_bytes, gathering, report, memory = std::move(memory)] {
      end_staged(uid, staged_bytes);
      if (Run* written = table_.find(id)) --written->commits_writing;
      answer_commit(id, gathering, *report);
    };
  });
}

Result<void> Server::Impl::room_to_keep(const Run& run, const Snapshot& snapshot) {
  const uint64_t bytes = snapshot.tensor_bytes();
  NPU_TRY_VOID(kept_.admit(static_cast<uid_t>(run.uid), run.name, bytes));
  NPU_TRY_VOID(memory_budget_.check(bytes, promised_bytes_));
  return begin_staged(run.uid, snapshot);
}

/// Not to the disk; on the same thread, so that the newest is the one that was committed last.
void Server::Impl::keep_snapshot(Run& run, const CommitGathering& gathering,
                                 std::shared_ptr<Snapshot> snapshot) {
  if (const auto room = room_to_keep(run, *snapshot); !room) {
    answer_commit(run.id, gathering, tl::unexpected(room.error()));
    return;
  }
  const uint64_t bytes = snapshot->tensor_bytes();
  promised_bytes_ += bytes;
  ++run.commits_writing;
  checkpoints_->post([this, id = run.id, uid = run.uid, gathering, bytes,
                      snapshot = std::move(snapshot),
                      memory = run.memory]() mutable -> Worker::Completion {
    const auto sequence = store_->upcoming_sequence(snapshot->uid, snapshot->run);
    auto report = std::make_shared<Result<CommitReport>>(
        sequence ? kept_.commit(*snapshot, *sequence) : tl::unexpected(sequence.error()));
    snapshot.reset();
    return [this, id, uid, gathering, bytes, report, memory = std::move(memory)] {
      end_staged(uid, bytes);
      promised_bytes_ -= bytes;
      if (Run* kept = table_.find(id)) --kept->commits_writing;
      answer_commit(id, gathering, *report);
    };
  });
}

void Server::Impl::forget_kept(const Run& run) {
  const auto members = std::span(run.members).first(run.world);
  const bool well = run.state == shm::RunState::kRunning &&
                    std::ranges::all_of(members, [](const Member& m) { return m.left; });
  // One that only evaluates leaves alone what a job of that name has left.
  if (!well || !(run.resumes || run.commits.any)) return;
  // Freeing much memory takes a while: not on this thread.
  if (auto kept = kept_.take(static_cast<uid_t>(run.uid), run.name)) {
    segments_->post([kept = std::move(kept)]() mutable -> Worker::Completion {
      kept.reset();
      return {};
    });
  }
}

void Server::Impl::look_after_kept() {
  const auto in_use = [this](uid_t uid, const std::string& name) {
    return std::ranges::any_of(table_.runs(), [&](const auto& run) {
      return run->uid == static_cast<int64_t>(uid) && run->name == name &&
             run->state != shm::RunState::kAborted;
    });
  };
  for (auto& over : kept_.expire(Clock::now(), in_use)) {
    log_event(Level::kInfo, "ckpt", "let go of a checkpoint in memory that no run used",
              {{"path", over->path()}});
    segments_->post([over = std::move(over)]() mutable -> Worker::Completion {
      over.reset();
      return {};
    });
  }
}

void Server::Impl::answer_commit(uint64_t run_id, const CommitGathering& gathering,
                                 const Result<CommitReport>& report) {
  Run* run = table_.find(run_id);
  if (!gathering.check_only && !gathering.memory) count_commit(run, report);
  if (report) {
    for (const StoreWarning& w : report->warnings)
      log_event(Level::kWarn, "ckpt", "checkpoint stored with a warning", {{"what", w.message}});
    if (run != nullptr && !gathering.check_only && !gathering.memory) run->failed_commits = 0;
  } else if (gathering.memory) {
    log_event(Level::kWarn, "ckpt", "checkpoint in memory failed",
              {{"run", run != nullptr ? run->name : ""}, {"step", gathering.step},
               {"reason", report.error().message}});
  } else {
    if (run != nullptr) ++run->failed_commits;
    log_event(Level::kError, "ckpt", "checkpoint failed",
              {{"run", run != nullptr ? run->name : ""}, {"step", gathering.step},
               {"failed_in_a_row", run != nullptr ? run->failed_commits : 1},
               {"reason", report.error().message}});
  }
  if (run == nullptr) return;
  for (uint32_t r = 0; r < run->world; ++r) {
    Session* session = find_session(run->members[r].session);
    if (session == nullptr) continue;
    const uint64_t request = gathering.by_rank[r].header.request;
    if (!report) {
      reply_error(*session, request, report.error());
      continue;
    }
    auto done = shm::make_message<shm::CheckpointDone>(request);
    done.step = gathering.step;
    done.bytes = report->bytes;
    done.durable_ms = std::chrono::duration<double, std::milli>(report->duration).count();
    shm::put_text(done.path, report->path);
    reply(*session, done);
  }
}

}  // namespace npu::daemon
