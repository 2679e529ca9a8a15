// Checkpoints, on disk and in memory: listings and descriptors for readers.
#include <algorithm>
#include <functional>

#include "daemon/control/server_impl.hpp"

namespace npu::daemon {
namespace {

using Kept = std::shared_ptr<const MemoryCheckpoint>;

/// Adds a row for each that is in memory and newer than all of its run on disk: a resume takes it.
void add_kept(std::span<const Kept> all, Result<std::vector<CheckpointInfo>>& rows) {
  for (const Kept& kept : all) {
    const Manifest& manifest = kept->manifest;
    if (!rows && rows.error().code == Code::kNotFound) rows = std::vector<CheckpointInfo>();
    if (!rows) return;
    const auto of_run = [&](const CheckpointInfo& row) { return row.run == manifest.run; };
    const bool overtaken = std::ranges::any_of(*rows, [&](const CheckpointInfo& row) {
      return of_run(row) && row.sequence >= manifest.sequence;
    });
    if (overtaken) continue;
    for (CheckpointInfo& row : *rows) row.latest = row.latest && !of_run(row);
    const auto behind = std::find_if(rows->rbegin(), rows->rend(), of_run);
    const auto at = behind == rows->rend() ? rows->end() : behind.base();
    rows->insert(at, CheckpointInfo{.run = manifest.run,
                                    .step = manifest.step,
                                    .path = kept->path(),
                                    .readable = true,
                                    .latest = true,
                                    .sequence = manifest.sequence,
                                    .created_unix_ms = manifest.created_unix_ms,
                                    .bytes = manifest.total_bytes(),
                                    .tensors = manifest.tensors.size(),
                                    .weights_digest = manifest.weights_digest});
  }
}

/// Says in each row what a read of every byte found; returns how many are damaged.
uint64_t verify_rows(CheckpointStore& store, uid_t uid, std::span<const Kept> kept,
                 std::span<CheckpointInfo> rows, const std::function<bool()>& nobody_waits) {
  uint64_t damaged = 0;
  for (CheckpointInfo& info : rows) {
    if (!info.readable || nobody_waits()) continue;
    const auto in_memory =
        std::ranges::find_if(kept, [&](const Kept& k) { return k->path() == info.path; });
    Result<void> checked;
    if (in_memory != kept.end()) {
      if (auto opened = open_verified(**in_memory); !opened) {
        checked = tl::unexpected(opened.error());
      }
    } else if (auto read = store.verify(uid, info.run, info.step); !read) {
      checked = tl::unexpected(read.error());
    }
    if (checked) continue;
    info.readable = false;
    info.problem = checked.error().message;
    ++damaged;
  }
  return damaged;
}

}  // namespace

void Server::Impl::on_list(Session& session, const shm::Received& message) {
  const auto list = message.as<shm::CheckpointList>();
  if (list.reserved != 0 || list.verify > 1) {
    expel(session.id, "set reserved bytes");
    return;
  }
  if (!begin_disk_task(session, list.header.request)) return;
  const std::string run = shm::get_text(list.run);
  checkpoints_->post([this, id = session.id, uid = static_cast<uid_t>(session.peer.uid), run,
                      request = list.header.request, verify = list.verify != 0,
                      gone = session.gone]() -> Worker::Completion {
    const auto nobody_waits = [&gone] { return gone->load(std::memory_order_relaxed); };
    auto rows =
        std::make_shared<Result<std::vector<CheckpointInfo>>>(std::vector<CheckpointInfo>());
    auto damaged = std::make_shared<uint64_t>(0);
    std::vector<Kept> kept;
    if (!nobody_waits()) {
      *rows = store_->list(uid, run.empty() ? std::nullopt : std::optional<std::string_view>(run));
      kept = kept_.all_of(uid);
      std::erase_if(kept, [&run](const Kept& k) { return !run.empty() && k->manifest.run != run; });
      add_kept(kept, *rows);
    }
    if (rows->has_value() && verify) {
      *damaged = verify_rows(*store_, uid, kept, **rows, nobody_waits);
    }
    return [this, id, uid, request, rows, damaged] {
      end_disk_task(uid, id);
      counters_.verify_failures += *damaged;
      Session* target = find_session(id);
      if (target == nullptr) return;
      if (!*rows) {
        reply_error(*target, request, rows->error());
        return;
      }
      for (const CheckpointInfo& info : **rows) {
        auto row = shm::make_message<shm::CheckpointRow>(request);
        row.step = static_cast<int64_t>(info.step);
        row.bytes = info.bytes;
        row.unix_time = info.created_unix_ms / 1000;
        row.latest = info.latest ? 1 : 0;
        row.valid = info.readable ? 1 : 0;
        row.best = info.best ? 1 : 0;
        shm::put_text(row.run, info.run);
        shm::put_text(row.path, info.path);
        shm::put_text(row.state, info.readable ? "valid" : info.problem);
        reply(*target, row);
      }
      reply(*target, shm::make_plain(shm::MessageType::kEnd, request));
    };
  });
}

namespace {

/// Why newer checkpoints were skipped, the newest first; a reader cuts it at the end.
std::string skipped_text(std::span<const StoreWarning> warnings) {
  std::string text;
  for (const StoreWarning& w : warnings) text += (text.empty() ? "" : "; ") + w.message;
  return text;
}

/// The newest of all. What is in memory is newer, unless another daemon has written since.
Result<OpenCheckpoint> open_to_resume(CheckpointStore& store, MemoryStore& memory, uid_t uid,
                                      const std::string& run) {
  const Kept kept = memory.find(uid, run);
  if (kept == nullptr) return store.open_newest_valid(uid, run);
  std::vector<StoreWarning> skipped;
  const auto upcoming = store.upcoming_sequence(uid, run);
  // A disk that cannot be read has nothing newer to offer.
  if (!upcoming || *upcoming <= kept->manifest.sequence) {
    auto opened = open_verified(*kept);
    if (opened) return opened;
    skipped.push_back({run, kept->manifest.step, {}, opened.error().message});
  }
  memory.take(uid, run);
  auto on_disk = store.open_newest_valid(uid, run);
  if (on_disk) {
    on_disk->warnings.insert(on_disk->warnings.begin(), skipped.begin(), skipped.end());
  } else if (!skipped.empty() && on_disk.error().code == Code::kNotFound) {
    return fail(Code::kDataLoss, "run '{}' has one checkpoint, in memory, and it is not valid; {}",
                run, skipped.front().message);
  }
  return on_disk;
}

Result<OpenCheckpoint> open_wanted(CheckpointStore& store, MemoryStore& memory, uid_t uid,
                                   const std::string& run, int64_t step) {
  if (step == shm::kResumeStep) return open_to_resume(store, memory, uid, run);
  if (step == shm::kBestStep) return store.open_best(uid, run);
  if (step < 0) return store.open_newest_valid(uid, run);
  return store.open_step(uid, run, static_cast<uint64_t>(step));
}

/// That were looked at on the way to the answer.
uint64_t damaged_checkpoints(const Result<OpenCheckpoint>& opened) {
  return opened ? opened->warnings.size() : opened.error().code == Code::kDataLoss ? 1 : 0;
}

}  // namespace

void Server::Impl::on_open(Session& session, const shm::Received& message) {
  const auto open = message.as<shm::CheckpointOpen>();
  if (!begin_disk_task(session, open.header.request)) return;
  const std::string run = shm::get_text(open.run);
  // The question comes on a connection of its own.
  for (const auto& going : table_.runs()) {
    const bool asks = open.step == shm::kResumeStep && going->name == run;
    if (asks && going->uid == session.peer.uid) going->resumes = true;
  }
  checkpoints_->post([this, id = session.id, uid = static_cast<uid_t>(session.peer.uid), run,
                      step = open.step, request = open.header.request,
                      gone = session.gone]() -> Worker::Completion {
    auto opened = std::make_shared<Result<OpenCheckpoint>>(
        gone->load(std::memory_order_relaxed)
            ? fail(Code::kAborted, "open a checkpoint: the connection closed")
            : open_wanted(*store_, kept_, uid, run, step));
    return [this, id, uid, request, opened] {
      end_disk_task(uid, id);
      counters_.verify_failures += damaged_checkpoints(*opened);
      Session* target = find_session(id);
      if (target == nullptr) return;
      if (!*opened) {
        reply_error(*target, request, opened->error());
        return;
      }
      OpenCheckpoint& checkpoint = **opened;
      auto answer = shm::make_message<shm::CheckpointOpened>(request);
      answer.step = static_cast<int64_t>(checkpoint.manifest.step);
      shm::put_text(answer.path, checkpoint.path);
      shm::put_text(answer.warning, skipped_text(checkpoint.warnings));
      std::vector<UniqueFd> fds;
      for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
        for (OpenFile& file : checkpoint.files) {
          if (file.name == name) fds.push_back(std::move(file.fd));
        }
      }
      reply(*target, answer, std::move(fds));
    };
  });
}

}  // namespace npu::daemon
