// A scrape: what the daemon counted, as far as the caller may see it. See docs/design/018-metrics.md.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <ctime>

#include "daemon/control/server_impl.hpp"
#include "daemon/version.hpp"

namespace npu::daemon {
namespace {

/// Whoever asks more often gets the same text: a flood of scrapes costs a descriptor each.
constexpr auto kTextFresh = milliseconds(200);
/// A rank that submitted nothing for this long, while others of its run wait, is called stalled.
constexpr double kStallSeconds = 10;
/// Sees what everybody sees; no user has this number.
constexpr int64_t kNobody = -2;

Result<UniqueFd> sealed_text(const std::string& text) {
  UniqueFd file(::memfd_create("npu-metrics", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return fail_errno("create the file of the metrics");
  NPU_TRY_VOID(write_all(file.get(), std::as_bytes(std::span(text)), "the file of the metrics"));
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail_errno("seal the file of the metrics");
  }
  return file;
}

RunPhase phase_of(const Run& run) noexcept {
  if (run.state == shm::RunState::kForming) return RunPhase::kPending;
  if (run.state == shm::RunState::kAborted) return RunPhase::kFailed;
  const bool leaving = std::ranges::any_of(run.members, [](const Member& m) { return m.left; });
  return leaving ? RunPhase::kCompleting : RunPhase::kRunning;
}

double heartbeat_age(const Lease& lease, const RunCounters::Rank& rank) noexcept {
  const uint64_t last = rank.last_ns.value(), now = now_ns();
  if (last == 0) return std::max(0.0, static_cast<double>(std::time(nullptr) - lease.since_unix));
  return now > last ? static_cast<double>(now - last) / 1e9 : 0;
}

bool others_wait(const RunMemory& memory, uint32_t rank) noexcept {
  if (memory.counters.ranks[rank].open.value() != 0) return false;
  for (uint32_t r = 0; r < memory.world; ++r) {
    if (r != rank && memory.counters.ranks[r].open.value() != 0) return true;
  }
  return false;
}

}  // namespace

void Server::Impl::view_devices(const Session& session, MetricsView& view) const {
  for (const Lease& lease : table_.leases()) {
    DeviceView device;
    device.attached = lease.run != nullptr;
    if (device.attached && lease.run->memory != nullptr) {
      const RunMemory& memory = *lease.run->memory;
      const RunCounters::Rank& rank = memory.counters.ranks[lease.rank];
      device.memory_used_bytes = lease.bytes;
      device.heartbeat_age_s = heartbeat_age(lease, rank);
      device.ring_depth = rank.open.value();
      device.stalled = device.heartbeat_age_s >= kStallSeconds && others_wait(memory, lease.rank);
      if (may_see(session, lease.uid)) {
        device.run = lease.run->name;
        device.uid = lease.uid;
        device.rank = lease.rank;
        device.pid = lease.pid;
      }
    }
    view.devices.push_back(std::move(device));
  }
}

void Server::Impl::view_runs(const Session& session, MetricsView& view) const {
  std::map<std::pair<int64_t, std::string>, const Run*> newest;
  for (const auto& run : table_.runs()) {
    if (run->memory == nullptr) continue;
    ++view.runs_by_phase[static_cast<size_t>(phase_of(*run))];
    if (run->state == shm::RunState::kRunning) {
      const RunCounters& counters = run->memory->counters;
      const uint64_t ended = counters.ended.value();
      view.inflight += counters.started.value() - ended;
    }
    // An aborted generation may still be there beside the next one of its name.
    if (may_see(session, run->uid)) newest[{run->uid, run->name}] = run.get();
  }
  for (const auto& [name, run] : newest) {
    const RunMemory& memory = *run->memory;
    RunView shown;
    shown.name = run->name;
    shown.uid = run->uid;
    shown.generation = run->id;
    shown.world = run->world;
    shown.history = counters_.histories.find(run->uid, run->name);
    for (uint32_t r = 0; r < run->world; ++r) shown.last_arrivals[r] = memory.counters.ranks[r].last_arrivals.value();
    if (memory.ranks[0].submit.data() != nullptr) {
      const shm::SubmitPage& page = *memory.ranks[0].submit_page();
      shown.step = page.rank.progress.load(std::memory_order_relaxed);
      shown.training = shm::read_progress(page.progress);
    }
    view.runs.push_back(std::move(shown));
  }
}

MetricsView Server::Impl::metrics_view(const Session& session) {
  MetricsView view;
  view.version = kVersion;
  view.start_unix = start_unix_;
  view.process = read_process_stats();
  view.engine = &engine_counters_;
  view.control = &counters_;
  view.device_memory_bytes = options.device_memory_bytes;
  view.busy = counters_.busy.sample(engine_counters_, now_ns());
  view.ascend = options.ascend_metrics;
  view_devices(session, view);
  view_runs(session, view);
  return view;
}

void Server::Impl::on_metrics(Session& session, uint64_t request) {
  std::erase_if(metrics_texts_, [](const auto& text) { return text.second.fresh.passed(); });
  const int64_t viewer = may_see(session, kNobody) ? -1 : session.peer.uid;
  auto found = metrics_texts_.find(viewer);
  if (found == metrics_texts_.end()) {
    const std::string text = metrics_text(metrics_view(session));
    auto file = sealed_text(text);
    if (!file) {
      reply_error(session, request, file.error());
      return;
    }
    found =
        metrics_texts_.emplace(viewer, MetricsText{std::move(*file), text.size(), Deadline::after(kTextFresh)}).first;
  }
  auto file = duplicate_fd(found->second.file.get());
  if (!file) {
    reply_error(session, request, file.error());
    return;
  }
  auto opened = shm::make_message<shm::MetricsOpened>(request);
  opened.bytes = found->second.bytes;
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(*file));
  reply(session, opened, std::move(fds));
}

void Server::Impl::count_leave(const Run& run, const Session& session, std::string_view how) {
  const DetachReason reason = detach_reason_of(session.detached, how);
  ++counters_.detached[run.members[session.rank].device][static_cast<size_t>(reason)];
}

void Server::Impl::count_commit(const Run* run, const Result<CommitReport>& report) {
  if (report) {
    counters_.checkpoint_duration.add(static_cast<uint64_t>(report->duration.count()));
    if (run != nullptr) counters_.histories.checkpoint(run->uid, run->name, report->bytes, unix_seconds());
  } else if (run != nullptr) {
    counters_.histories.checkpoint_failed(run->uid, run->name);
  }
}

}  // namespace npu::daemon
