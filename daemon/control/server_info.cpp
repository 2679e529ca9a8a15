// Listings: devices and runs as `npu info` shows them.
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
      row.pid = lease.pid;
      row.uid = lease.uid;
      row.rank = static_cast<int32_t>(lease.rank);
      row.collectives = lease.run->memory->collectives_done.load(std::memory_order_relaxed);
      shm::put_text(row.run, lease.run->name);
    }
    reply(session, row);
  }
  for (const auto& run : table_.runs()) {
    if (run->memory == nullptr) continue;
    auto row = shm::make_message<shm::RunRow>(request);
    row.generation = run->id;
    row.collectives = run->memory->collectives_done.load(std::memory_order_relaxed);
    row.uid = run->uid;
    row.world = run->world;
    row.joined = run->joined();
    row.state = static_cast<uint32_t>(run->state);
    shm::put_text(row.run, run->name);
    shm::put_text(row.error, run->last_error);
    reply(session, row);
  }
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
}

}  // namespace npu::daemon
