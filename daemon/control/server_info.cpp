// Listings: devices and runs as `npu info` and `npu ps` show them.
#include "daemon/control/server_impl.hpp"

namespace npu::daemon {

void Server::Impl::on_info(Session& session, uint64_t request) {
  for (uint32_t d = 0; d < options.devices; ++d) {
    const Lease& lease = table_.leases()[d];
    auto row = shm::make_message<shm::DeviceRow>(request);
    row.id = d;
    row.memory_total_bytes = options.device_memory_bytes;
    row.rank = -1;
    row.uid = -1;
    if (lease.run != nullptr) {
      row.busy = 1;
      row.memory_used_bytes = lease.bytes;
    }
    // Who it is, and what runs there, is the owner's business.
    if (lease.run != nullptr && may_see(session, lease.uid)) {
      row.pid = lease.pid;
      row.uid = lease.uid;
      row.rank = static_cast<int32_t>(lease.rank);
      row.collectives = lease.run->memory->collectives_done.load(std::memory_order_relaxed);
      shm::put_text(row.run, lease.run->name);
    }
    reply(session, row);
  }
  send_runs(session, request);
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
}

void Server::Impl::send_runs(Session& session, uint64_t request) {
  for (const auto& run : table_.runs()) {
    if (run->memory == nullptr || !may_see(session, run->uid)) continue;
    shm::RunRow row = row_of(*run);
    row.header.request = request;
    row.launcher = launcher_of(*run);
    reply(session, row);
  }
}

void Server::Impl::on_ps(Session& session, uint64_t request) {
  send_runs(session, request);
  send_pending(session, request);
  for (const TracedRun& ended : ended_) {
    if (!may_see(session, ended.row.uid)) continue;
    shm::RunRow row = ended.row;
    row.header.request = request;
    reply(session, row);
  }
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
}

shm::RunRow Server::Impl::row_of(const Run& run) {
  auto row = shm::make_message<shm::RunRow>(0);
  row.generation = run.memory->generation;
  row.collectives = run.memory->collectives_done.load(std::memory_order_relaxed);
  row.uid = run.uid;
  row.started_unix = run.started_unix;
  row.world = run.world;
  row.joined = run.joined();
  row.state = static_cast<uint32_t>(run.state);
  row.failed_checkpoints = run.failed_commits;
  for (uint32_t r = 0; r < run.world; ++r) {
    const Member& member = run.members[r];
    row.pids[r] = member.session != 0 ? member.pid : 0;
    row.devices[r] = member.device;
    const RankMemory& memory = run.memory->ranks[r];
    if (memory.submit.data() == nullptr) continue;
    row.steps[r] = memory.submit_page()->rank.progress.load(std::memory_order_relaxed);
  }
  shm::put_text(row.run, run.name);
  shm::put_text(row.error, run.last_error);
  return row;
}

}  // namespace npu::daemon
