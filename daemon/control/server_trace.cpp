// Flight recorders: handed to readers, kept for a while after their run, written to a file when a
// run is aborted.
#include <algorithm>
#include <ctime>

#include "daemon/control/server_impl.hpp"
#include "daemon/control/trace_file.hpp"
#include "daemon/log.hpp"
#include "shm/format/printable.hpp"
#include "shm/trace_json.hpp"
#include "shm/trace_reader.hpp"

namespace npu::daemon {
namespace {

constexpr size_t kEndedRuns = 8;        // 768 KiB each
constexpr uint64_t kMaxDiskTasks = 64;  // more are waiting: runs fail faster than the disk writes

/// Ranks runs of one name: a run that is still forming has recorded nothing, so it does not hide
/// what happened to the one before it.
std::pair<bool, uint64_t> freshness(const TracedRun& run) {
  return {run.row.state != static_cast<uint32_t>(shm::RunState::kForming), run.row.generation};
}

void add_name(std::string& list, const std::string& name) {
  const std::string quoted = "'" + name + "'";
  if (list.find(quoted) != std::string::npos) return;
  list += (list.empty() ? "" : ", ") + quoted;
}

}  // namespace

Result<TracedRun> Server::Impl::find_trace(const std::string& name, const Session& session) {
  std::vector<TracedRun> all(ended_.begin(), ended_.end());
  for (const auto& run : table_.runs()) {
    if (run->memory == nullptr || run->memory->recorder == nullptr) continue;
    all.push_back({row_of(*run), run->memory->recorder});
  }
  const TracedRun* newest = nullptr;
  std::string known;
  for (const TracedRun& run : all) {
    const std::string run_name = shm::get_text(run.row.run);
    if (!may_see(session, run.row.uid)) {
      // The answer is that of an unknown run: the name alone would tell something.
      if (run_name == name) {
        complain(session.peer.uid, session.peer.pid,
                 fmt::format("refused a user the trace of run '{}' of uid {}", name, run.row.uid));
      }
      continue;
    }
    add_name(known, run_name);
    if (run_name != name) continue;
    if (newest == nullptr || freshness(*newest) < freshness(run)) newest = &run;
  }
  if (newest != nullptr) return *newest;
  return fail(
      Code::kNotFound,
      "trace of run '{}': this daemon has no such run of yours and none of its last {} runs "
      "was it; {}",
      printable(name), kEndedRuns, known.empty() ? "no run of yours is known" : "known: " + known);
}

void Server::Impl::on_trace_open(Session& session, const shm::Received& message) {
  const auto open = message.as<shm::TraceOpen>();
  const auto found = find_trace(shm::get_text(open.run), session);
  if (!found) {
    reply_error(session, open.header.request, found.error());
    return;
  }
  auto fd = duplicate_fd(found->recorder->fd());
  if (!fd) {
    reply_error(session, open.header.request, fd.error());
    return;
  }
  auto opened = shm::make_message<shm::TraceOpened>(open.header.request);
  opened.generation = found->row.generation;
  opened.uid = found->row.uid;
  opened.world = found->row.world;
  opened.state = found->row.state;
  shm::put_text(opened.run, shm::get_text(found->row.run));
  shm::put_text(opened.error, shm::get_text(found->row.error));
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(*fd));
  reply(session, opened, std::move(fds));
}

void Server::Impl::remember(const Run& run) {
  if (run.memory == nullptr || run.memory->recorder == nullptr) return;
  TracedRun ended{row_of(run), run.memory->recorder};
  ended.row.ended_unix = std::time(nullptr);
  if (run.state == shm::RunState::kRunning) {
    ended.row.state = static_cast<uint32_t>(shm::RunState::kEnded);
  }
  ended_.push_back(std::move(ended));
  if (ended_.size() > kEndedRuns) ended_.pop_front();
}

void Server::Impl::write_trace(const Run& run) {
  if (run.memory == nullptr || run.memory->recorder == nullptr) return;
  if (checkpoints_->pending() > kMaxDiskTasks) {
    log_event(Level::kWarn, "live", "flight recorder not written, ignoring",
              {{"run", run.name}, {"generation", run.id}, {"waiting", checkpoints_->pending()}});
    return;
  }
  checkpoints_->post([state_dir = options.state_dir, name = run.name, generation = run.id,
                      uid = run.uid, error = run.last_error,
                      recorder = run.memory->recorder]() -> Worker::Completion {
    const shm::TraceSnapshot trace = shm::read_trace(recorder->ring());
    const std::string text = shm::trace_json({.run = name,
                                              .generation = generation,
                                              .state = "aborted",
                                              .error = error,
                                              .opened = trace.opened,
                                              .skipped = trace.torn + trace.bad},
                                             trace.records);
    auto path = std::make_shared<Result<std::string>>(
        write_trace_file(state_dir, fmt::format("{}-{}-{}.json", uid, name, generation), text));
    return [name, generation, path] {
      if (*path) {
        log_event(Level::kWarn, "live", "flight recorder written",
                  {{"run", name}, {"generation", generation}, {"path", **path}});
      } else {
        log_event(Level::kWarn, "live", "flight recorder not written, ignoring",
                  {{"run", name}, {"generation", generation}, {"reason", path->error().message}});
      }
    };
  });
}

}  // namespace npu::daemon
