#include "client/launch/launch.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "client/api/admin.hpp"
#include "client/launch/confirm.hpp"
#include "client/launch/rank_env.hpp"

namespace npu::client {
namespace {

std::vector<RankSpec> rank_specs(const LaunchOptions& options, const std::string& socket,
                                 const std::string& run_key) {
  const int world = static_cast<int>(options.devices.size());
  std::vector<std::string> argv = {"npu", "train", options.job_file};
  for (const std::string& value : options.overrides) argv.insert(argv.end(), {"--set", value});
  std::vector<RankSpec> specs;
  for (int rank = 0; rank < world; ++rank) {
    const RankEnvironment env{.rank = rank,
                              .world = world,
                              .threads = threads_per_rank(world),
                              .socket = socket,
                              .run_key = run_key};
    // The running binary itself, even if its file was replaced meanwhile.
    specs.push_back({.rank = rank,
                     .device = options.devices[static_cast<size_t>(rank)],
                     .path = "/proc/self/exe",
                     .argv = argv,
                     .env = rank_environment(env, environ)});
  }
  return specs;
}

/// Shows the done record, verified, as the last thing of a job that ended well: after its last
/// epoch or where it was asked to stop.
int end_well(const LaunchOptions& options, const std::string& socket, const JobOutcome& outcome,
             Renderer& renderer) {
  DoneEvent done = *outcome.done;
  const bool committed = !done.checkpoint.empty() && outcome.committed == done.checkpoint;
  const auto confirmed = confirm_checkpoint(socket, options.run, committed, done);
  renderer.on_event(done);
  if (confirmed) return outcome.exit_code;
  ErrorEvent error;
  error.code = code_name(confirmed.error().code);
  error.exit_code = static_cast<int>(confirmed.error().exit);
  error.pid = ::getpid();
  error.message = confirmed.error().message;
  renderer.on_event(error);
  renderer.notice(fmt::format("{}: error: {}", options.supervisor.program, error.message));
  return error.exit_code;
}

}  // namespace

int threads_per_rank(int world) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(cpus / std::max(world, 1), 1);
}

Result<DaemonAccess> open_daemon(const DaemonChoice& choice, StopSignals* signals) {
  if (choice.mode != DaemonMode::kPrivate) {
    auto found = find_daemon(choice.socket);
    if (found) return DaemonAccess{.socket = *found};
    // A socket that was asked for by name is not replaced by something else, nor is a daemon that
    // answers but refuses (another version, no permission): the user must know.
    if (choice.mode == DaemonMode::kRequire || !choice.socket.empty() ||
        found.error().code != Code::kUnavailable) {
      return tl::make_unexpected(std::move(found.error()));
    }
  }
  NPU_TRY(auto owned, PrivateDaemon::start({.state_dir = choice.state_dir, .signals = signals}));
  DaemonAccess access{.socket = owned->socket()};
  access.owned = std::move(owned);
  return access;
}

Result<DaemonAccess> open_store(const DaemonChoice& choice) {
  const std::string state_dir = choice.state_dir.empty() ? default_state_dir() : choice.state_dir;
  if (choice.mode == DaemonMode::kAuto && choice.socket.empty() && !find_daemon("")) {
    for (const PrivateInstance& instance : live_private_daemons()) {
      if (instance.state_dir == state_dir) return DaemonAccess{.socket = instance.socket};
    }
  }
  return open_daemon(choice, nullptr);
}

Result<int> launch(const LaunchOptions& options, Renderer& renderer) {
  NPU_TRY(StopSignals signals, StopSignals::make());
  NPU_TRY(const std::string run_key, random_run_key());
  NPU_TRY(DaemonAccess daemon, open_daemon(options.daemon, &signals));
  SupervisorOptions supervisor = options.supervisor;
  if (daemon.owned) {
    renderer.notice(
        fmt::format("{}: {}started a private npud (pid {}, state in {})", supervisor.program,
                    options.daemon.mode == DaemonMode::kAuto ? "no daemon answers, " : "",
                    daemon.owned->child().pid(), daemon.owned->state_dir()));
    supervisor.daemon = &daemon.owned->child();
  }
  NPU_TRY(const JobOutcome outcome,
          supervise(rank_specs(options, daemon.socket, run_key), signals, renderer, supervisor));
  if (!outcome.done) return outcome.exit_code;
  return end_well(options, daemon.socket, outcome, renderer);
}

}  // namespace npu::client
