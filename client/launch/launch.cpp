#include "client/launch/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "client/api/admin.hpp"
#include "client/data/picture_cache.hpp"
#include "client/launch/confirm.hpp"
#include "client/launch/cores.hpp"
#include "client/launch/device_line.hpp"
#include "client/launch/rank_env.hpp"
#include "client/launch/recovery.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::client {
namespace {

// Of a daemon that somebody else restarts, and of what a dead generation leaves in a living one.
constexpr milliseconds kDaemonLimit{30'000}, kDepartureLimit{5'000};

/// What the user says counts, as it does for the rank ("4,2": the first); else an even share.
int threads_of_rank(int world) {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const int wanted = text == nullptr ? 0 : std::atoi(text);
  return wanted > 0 ? wanted : threads_per_rank(world);
}

std::vector<RankSpec> rank_specs(const LaunchOptions& options, const std::string& socket,
                                 const std::string& run_key, bool go_on, int pictures_fd) {
  const int world = static_cast<int>(options.devices.size());
  std::vector<std::string> argv = {"npu", "train", options.job_file};
  for (const std::string& value : options.overrides) argv.insert(argv.end(), {"--set", value});
  if (go_on) {
    for (const std::string& value : options.restart.overrides)
      argv.insert(argv.end(), {"--set", value});
  }
  const int threads = threads_of_rank(world);
  const std::vector<int> cores = options.bind ? rank_cores(world, threads, allowed_cores())
                                              : std::vector<int>(static_cast<size_t>(world), -1);
  std::vector<RankSpec> specs;
  for (int rank = 0; rank < world; ++rank) {
    const RankEnvironment env{.rank = rank,
                              .world = world,
                              .threads = threads,
                              .socket = socket,
                              .run_key = run_key};
    // The running binary itself, even if its file was replaced meanwhile.
    specs.push_back({.rank = rank,
                     .device = options.devices[static_cast<size_t>(rank)],
                     .path = "/proc/self/exe",
                     .argv = argv,
                     .env = rank_environment(env, environ),
                     .core = cores[static_cast<size_t>(rank)],
                     .pictures_fd = pictures_fd});
  }
  return specs;
}

/// One job: its daemon, its attempts and its end. docs/design/015-restart.md.
class Launch {
 public:
  Launch(const LaunchOptions& options, StopSignals& signals, Renderer& renderer)
      : options_(options), signals_(signals), renderer_(renderer), budget_(options.restart) {}

  [[nodiscard]] Result<int> run();

 private:
  [[nodiscard]] Result<void> take_devices();
  [[nodiscard]] Result<JobOutcome> attempt();
  [[nodiscard]] Result<JobOutcome> restart(const JobOutcome& failed, milliseconds delay);
  [[nodiscard]] Result<void> recover_daemon();
  [[nodiscard]] JobOutcome no_daemon(const Error& error);
  [[nodiscard]] int64_t choose_checkpoint(const JobOutcome& failed);
  void announce_daemon(const char* why);
  void say(const Error& error);
  [[nodiscard]] int end_well(const JobOutcome& outcome);
  [[nodiscard]] int give_up(const JobOutcome& outcome);
  [[nodiscard]] bool may_restart(const JobOutcome& outcome) const {
    return outcome.stop_signal == 0 && worth_restarting(outcome.exit_code);
  }

  const LaunchOptions& options_;
  StopSignals& signals_;
  Renderer& renderer_;
  DaemonAccess daemon_;
  bool private_ = false;  // it is ours, whether it lives at this moment or not
  std::optional<DeviceHold> hold_;  // with --wait
  UniqueFd pictures_;  // outlives attempts: what one decoded, the next finds
  RestartBudget budget_;
  std::optional<NewestCheckpoint> before_;  // when the job was launched
  bool go_on_ = false;                      // from a checkpoint of this launch
  std::optional<DoneEvent> done_;           // of an attempt that failed all the same
};

Result<int> Launch::run() {
  NPU_TRY(daemon_, open_daemon(options_.daemon, &signals_));
  private_ = daemon_.owned != nullptr;
  if (private_) {
    announce_daemon(options_.daemon.mode == DaemonMode::kAuto ? "no daemon answers, " : "");
  }
  NPU_TRY_VOID(take_devices());
  if (options_.share_pictures) {
    NPU_TRY(pictures_, data::PictureMemory::create());
  }
  if (options_.restart.max_restarts > 0 && !options_.restart.overrides.empty()) {
    before_ = newest_checkpoint(daemon_.socket, options_.run);
  }
  NPU_TRY(JobOutcome outcome, attempt());
  for (;;) {
    budget_.note_checkpoint(outcome.committed_step);
    if (outcome.well) return outcome.done ? end_well(outcome) : outcome.exit_code;
    if (outcome.done) done_ = outcome.done;
    const auto delay = may_restart(outcome) ? budget_.take() : std::nullopt;
    if (!delay) return give_up(outcome);
    NPU_TRY(outcome, restart(outcome, *delay));
  }
}

/// With --wait: all devices, or the news that they are not to be had. Between two attempts the
/// devices stay, unless the daemon that kept them is gone.
Result<void> Launch::take_devices() {
  if (!options_.wait || (hold_ && hold_->holds())) return {};
  hold_.reset();
  DeviceWait wait{.socket = daemon_.socket, .run = options_.run, .devices = options_.devices};
  if (options_.wait->count() > 0) wait.limit = options_.wait;
  wait.on_place = [this](uint32_t place, const std::string& why) {
    renderer_.remark(fmt::format("{}: waiting for devices, place {} in the line; {}",
                                 options_.supervisor.program, place, why));
  };
  NPU_TRY(hold_, DeviceHold::wait(wait, signals_));
  return {};
}

Result<JobOutcome> Launch::attempt() {
  NPU_TRY(const std::string run_key, random_run_key());
  SupervisorOptions supervisor = options_.supervisor;
  supervisor.daemon = daemon_.owned ? &daemon_.owned->child() : nullptr;
  if (daemon_.owned && options_.keep_ranks) {
    supervisor.respawn = [this](bool made_a_step) { return daemon_.owned->respawn(made_a_step); };
  }
  return supervise(rank_specs(options_, daemon_.socket, run_key, go_on_, pictures_.get()), signals_,
                   renderer_, supervisor);
}

Result<JobOutcome> Launch::restart(const JobOutcome& failed, milliseconds delay) {
  renderer_.remark(fmt::format("{}: restart {} in {:g} s ({} of {} without a new checkpoint): {}",
                               options_.supervisor.program, budget_.restarts(),
                               std::chrono::duration<double>(delay).count(), budget_.fruitless(),
                               options_.restart.max_restarts, failed.reason));
  NPU_TRY_VOID(pause_for(signals_, delay, "waiting to restart the job"));
  if (const auto back = recover_daemon(); !back) {
    if (back.error().code == Code::kAborted) return tl::make_unexpected(back.error());
    return no_daemon(back.error());
  }
  NPU_TRY_VOID(await_departure(daemon_.socket, options_.run, kDepartureLimit, signals_));
  NPU_TRY_VOID(take_devices());
  renderer_.on_event(RestartEvent{budget_.restarts(), failed.reason, choose_checkpoint(failed)});
  if (options_.on_restart) options_.on_restart();
  return attempt();
}

/// A daemon of our own that is gone is replaced; another one is waited for.
Result<void> Launch::recover_daemon() {
  Child* const own = daemon_.owned ? &daemon_.owned->child() : nullptr;
  // One of ours that died while it started is nothing to wait for: nobody else starts it again.
  if (!private_ || own != nullptr) {
    auto answered = await_daemon(daemon_.socket, kDaemonLimit, signals_, own);
    if (!private_ || answered || answered.error().code == Code::kAborted) return answered;
  }
  daemon_.owned.reset();
  NPU_TRY(daemon_.owned,
          PrivateDaemon::start({.state_dir = options_.daemon.state_dir, .signals = &signals_}));
  daemon_.socket = daemon_.owned->socket();
  announce_daemon("");
  return {};
}

/// An attempt that came to nothing.
JobOutcome Launch::no_daemon(const Error& error) {
  say(error);
  return {.exit_code = static_cast<int>(error.exit), .well = false, .reason = error.message};
}

/// Returns the step that the next attempt goes on from.
int64_t Launch::choose_checkpoint(const JobOutcome& failed) {
  const auto newest = newest_checkpoint(daemon_.socket, options_.run);
  if (options_.restart.overrides.empty()) return newest ? newest->step : 0;
  go_on_ = go_on_ || (newest && newest != before_);
  return go_on_ && newest ? newest->step : failed.first_step - 1;
}

void Launch::announce_daemon(const char* why) {
  renderer_.remark(fmt::format("{}: {}started a private npud (pid {}, state in {})",
                               options_.supervisor.program, why, daemon_.owned->child().pid(),
                               daemon_.owned->state_dir()));
}

void Launch::say(const Error& error) {
  ErrorEvent event;
  event.code = code_name(error.code);
  event.exit_code = static_cast<int>(error.exit);
  event.pid = ::getpid();
  event.message = error.message;
  renderer_.on_event(event);
  renderer_.notice(fmt::format("{}: error: {}", options_.supervisor.program, error.message));
}

/// Shows the done record, verified, as the last thing of a job that ended well: after its last
/// epoch or where it was asked to stop.
int Launch::end_well(const JobOutcome& outcome) {
  DoneEvent done = *outcome.done;
  const bool committed = !done.checkpoint.empty() && outcome.committed == done.checkpoint;
  NPU_FAILPOINT("launch.before_confirm");
  auto confirmed = confirm_checkpoint(daemon_.socket, options_.run, committed, done);
  // The daemon may have died since the ranks left it; what it wrote is on the disk all the same.
  if (!confirmed && confirmed.error().code == Code::kUnavailable &&
      (options_.restart.max_restarts > 0 || options_.keep_ranks) && recover_daemon()) {
    confirmed = confirm_checkpoint(daemon_.socket, options_.run, committed, done);
  }
  renderer_.on_event(done);
  if (confirmed) return outcome.exit_code;
  say(confirmed.error());
  return static_cast<int>(confirmed.error().exit);
}

int Launch::give_up(const JobOutcome& outcome) {
  if (done_) renderer_.on_event(*done_);  // not verified: the end was not a good one
  const int most = options_.restart.max_restarts;
  if (most == 0 || outcome.stop_signal != 0) return outcome.exit_code;
  renderer_.notice(
      may_restart(outcome)
          ? fmt::format("{}: not restarted again: {} restarts in a row brought no new checkpoint, "
                        "restart.max_restarts allows {}",
                        options_.supervisor.program, budget_.fruitless(), most)
          : fmt::format("{}: not restarted: what ends with exit code {} would come again",
                        options_.supervisor.program, outcome.exit_code));
  return outcome.exit_code;
}

}  // namespace

int threads_per_rank(int world) noexcept {
  const auto cpus = static_cast<int>(allowed_cores().size());
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
  return Launch(options, signals, renderer).run();
}

}  // namespace npu::client
