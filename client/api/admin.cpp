#include "client/api/admin.hpp"

#include "client/api/connection.hpp"
#include "shm/board_data.hpp"
#include "shm/messages.hpp"
#include "shm/paths.hpp"
#include "shm/segment.hpp"

namespace npu::client {
namespace {

DeviceInfo to_info(const shm::DeviceRow& row) {
  DeviceInfo info;
  info.id = static_cast<int>(row.id);
  info.state = row.busy != 0 ? "busy" : "idle";
  info.memory_total_bytes = row.memory_total_bytes;
  info.memory_used_bytes = row.memory_used_bytes;
  info.run = shm::get_text(row.run);
  info.rank = row.rank;
  info.pid = row.pid;
  info.uid = row.uid;
  info.collectives = row.collectives;
  return info;
}

const char* state_name(uint32_t state) {
  switch (static_cast<shm::RunState>(state)) {
    case shm::RunState::kForming:
      return "forming";
    case shm::RunState::kRunning:
      return "running";
    case shm::RunState::kAborted:
      return "aborted";
    case shm::RunState::kEnded:
      return "ended";
    case shm::RunState::kPending:
      return "pending";
  }
  return "unknown";
}

RunInfo to_info(const shm::RunRow& row) {
  RunInfo info;
  info.name = shm::get_text(row.run);
  info.state = state_name(row.state);
  info.world = static_cast<int>(row.world);
  info.joined = static_cast<int>(row.joined);
  info.generation = row.generation;
  info.uid = row.uid;
  info.started_unix = row.started_unix;
  info.ended_unix = row.ended_unix;
  info.collectives = row.collectives;
  info.failed_checkpoints = row.failed_checkpoints;
  info.last_error = shm::get_text(row.error);
  info.launcher = row.launcher;
  info.place = row.place;
  for (uint32_t r = 0; r < row.world && r < shm::kMaxDevices; ++r) {
    info.ranks.push_back({.rank = static_cast<int>(r),
                          .device = static_cast<int>(row.devices[r]),
                          .pid = row.pids[r],
                          .steps = row.steps[r]});
  }
  return info;
}

CheckpointInfo to_info(const shm::CheckpointRow& row) {
  CheckpointInfo info;
  info.run = shm::get_text(row.run);
  info.step = row.step;
  info.bytes = row.bytes;
  info.unix_time = row.unix_time;
  info.latest = row.latest != 0;
  info.best = row.best != 0;
  info.path = shm::get_text(row.path);
  info.state = shm::get_text(row.state);
  return info;
}

}  // namespace

std::vector<std::string> default_sockets() { return shm::default_sockets(); }

Result<std::string> find_daemon(const std::string& explicit_socket) {
  const auto sockets =
      explicit_socket.empty() ? default_sockets() : std::vector<std::string>{explicit_socket};
  std::string tried;
  for (const std::string& socket : sockets) {
    auto connection = Connection::open(socket);
    if (connection) return socket;
    // A daemon that answers but does not fit must be named, not skipped.
    if (connection.error().code != Code::kUnavailable) return tl::unexpected(connection.error());
    tried += (tried.empty() ? "'" : ", '") + socket + "'";
  }
  return fail(
      Code::kUnavailable,
      "find a daemon: none answers at {}; start npud, or let `npu launch` start a private one",
      tried);
}

Result<DaemonInfo> query_info(const std::string& socket) {
  NPU_TRY(Connection connection, Connection::open(socket));
  DaemonInfo info;
  info.socket = socket;
  info.version = shm::get_text(connection.welcome().build);
  info.pid = connection.welcome().daemon_pid;
  info.engine_threads = connection.welcome().engine_threads;
  NPU_TRY_VOID(
      connection.send(shm::make_plain(shm::MessageType::kInfo, connection.next_request())));
  const Deadline deadline = Deadline::after(kRequestLimit);
  for (;;) {
    NPU_TRY(const shm::Received message, connection.receive(deadline));
    if (message.type() == shm::MessageType::kEnd) return info;
    if (message.is<shm::DeviceRow>()) info.devices.push_back(to_info(message.as<shm::DeviceRow>()));
    if (message.is<shm::RunRow>()) info.runs.push_back(to_info(message.as<shm::RunRow>()));
  }
}

namespace {

Result<std::vector<RunInfo>> receive_runs(Connection& connection) {
  const Deadline deadline = Deadline::after(kRequestLimit);
  std::vector<RunInfo> runs;
  for (;;) {
    NPU_TRY(const shm::Received message, connection.receive(deadline));
    if (message.type() == shm::MessageType::kEnd) return runs;
    if (message.is<shm::RunRow>()) runs.push_back(to_info(message.as<shm::RunRow>()));
  }
}

}  // namespace

Result<std::vector<RunInfo>> list_runs(const std::string& socket) {
  NPU_TRY(Connection connection, Connection::open(socket));
  NPU_TRY_VOID(connection.send(shm::make_plain(shm::MessageType::kPs, connection.next_request())));
  return receive_runs(connection);
}

Result<std::vector<RunInfo>> evict_run(const std::string& socket, const std::string& run,
                                       int64_t uid, const std::string& reason) {
  NPU_TRY(Connection connection, Connection::open(socket));
  auto request = shm::make_message<shm::Evict>(connection.next_request());
  request.uid = uid;
  shm::put_text(request.run, run);
  shm::put_text(request.reason, reason);
  NPU_TRY_VOID(connection.send(request));
  return receive_runs(connection);
}

Result<void> drain_daemon(const std::string& socket) {
  NPU_TRY(Connection connection, Connection::open(socket));
  NPU_TRY_VOID(
      connection.send(shm::make_plain(shm::MessageType::kDrain, connection.next_request())));
  NPU_TRY(const shm::Received message, connection.receive(Deadline::after(kRequestLimit)));
  if (message.type() == shm::MessageType::kEnd) return {};
  return fail(Code::kUnavailable, "drain the daemon: it answered with message type {}",
              message.header().type);
}

Result<TraceWatch> TraceWatch::open(const std::string& socket, const std::string& run) {
  NPU_TRY(Connection connection, Connection::open(socket));
  auto request = shm::make_message<shm::TraceOpen>(connection.next_request());
  shm::put_text(request.run, run);
  NPU_TRY_VOID(connection.send(request));
  NPU_TRY(const shm::Received message, connection.receive(Deadline::after(kRequestLimit)));
  if (!message.is<shm::TraceOpened>() || message.fds.size() != 1) {
    return fail(Code::kUnavailable,
                "trace of run '{}': the daemon answered with type {} and {} descriptors", run,
                message.header().type, message.fds.size());
  }
  const auto opened = message.as<shm::TraceOpened>();
  NPU_TRY(shm::Mapping mapping,
          shm::map_received(message.fds[0].get(), {.kind = shm::SegmentKind::kTrace,
                                                   .size_bytes = sizeof(shm::TraceRing),
                                                   .generation = opened.generation,
                                                   .world = opened.world}));
  return TraceWatch(std::move(mapping), opened);
}

shm::TraceSnapshot TraceWatch::snapshot(uint64_t limit) const {
  return shm::read_trace(*reinterpret_cast<const shm::TraceRing*>(mapping_.data()), limit);
}

Result<Trace> read_run_trace(const std::string& socket, const std::string& run, uint64_t limit) {
  NPU_TRY(const TraceWatch watch, TraceWatch::open(socket, run));
  const shm::TraceOpened& opened = watch.opened();
  return Trace{.run = shm::get_text(opened.run),
               .state = state_name(opened.state),
               .last_error = shm::get_text(opened.error),
               .generation = opened.generation,
               .world = static_cast<int>(opened.world),
               .snapshot = watch.snapshot(limit)};
}

Result<std::string> read_metrics(const std::string& socket) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  NPU_TRY(Connection connection, Connection::open(socket));
  NPU_TRY_VOID(connection.send(shm::make_plain(shm::MessageType::kMetrics, connection.next_request())));
  NPU_TRY(const shm::Received message, connection.receive(Deadline::after(kRequestLimit)));
  const bool fits = message.is<shm::MetricsOpened>() && message.fds.size() == 1;
  const uint64_t bytes = fits ? message.as<shm::MetricsOpened>().bytes : 0;
  if (!fits || bytes > kMaxBytes) {
    return fail(Code::kUnavailable,
                "metrics of the daemon at '{}': it answered with type {}, {} descriptors and {} bytes; install the "
                "same version of npu and npud",
                socket, message.header().type, message.fds.size(), bytes);
  }
  std::string text(bytes, '\0');
  NPU_TRY_VOID(pread_all(message.fds[0].get(), std::as_writable_bytes(std::span(text)), 0, "the daemon's metrics"));
  return text;
}

Result<std::vector<CheckpointInfo>> list_checkpoints(const std::string& socket,
                                                     const std::string& run, bool verify) {
  NPU_TRY(Connection connection, Connection::open(socket));
  auto request = shm::make_message<shm::CheckpointList>(connection.next_request());
  request.verify = verify ? 1 : 0;
  shm::put_text(request.run, run);
  NPU_TRY_VOID(connection.send(request));
  std::vector<CheckpointInfo> rows;
  for (;;) {
    NPU_TRY(const shm::Received message, connection.receive(Deadline::never()));
    if (message.type() == shm::MessageType::kEnd) return rows;
    if (message.is<shm::CheckpointRow>()) rows.push_back(to_info(message.as<shm::CheckpointRow>()));
  }
}

Result<CheckpointFiles> open_checkpoint(const std::string& socket, const std::string& run,
                                        int64_t step) {
  NPU_TRY(Connection connection, Connection::open(socket));
  auto request = shm::make_message<shm::CheckpointOpen>(connection.next_request());
  request.step = step;
  shm::put_text(request.run, run);
  NPU_TRY_VOID(connection.send(request));
  NPU_TRY(shm::Received message, connection.receive(Deadline::never()));
  if (!message.is<shm::CheckpointOpened>() || message.fds.size() != 3) {
    return fail(
        Code::kUnavailable,
        "open a checkpoint of run '{}': the daemon answered with type {} and {} descriptors", run,
        message.header().type, message.fds.size());
  }
  const auto opened = message.as<shm::CheckpointOpened>();
  CheckpointFiles files;
  files.step = opened.step;
  files.path = shm::get_text(opened.path);
  files.warning = shm::get_text(opened.warning);
  files.model = std::move(message.fds[0]);
  files.optimizer = std::move(message.fds[1]);
  files.state = std::move(message.fds[2]);
  return files;
}

}  // namespace npu::client
