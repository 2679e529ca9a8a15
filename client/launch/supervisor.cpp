#include "client/launch/supervisor.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "client/launch/failure.hpp"
#include "client/launch/rank_env.hpp"
#include "client/launch/rank_process.hpp"

namespace npu::client {
namespace {

// epoll tags: (rank index, source); the two below belong to no rank.
constexpr uint32_t kPidfd = RankProcess::kStreams;
constexpr uint64_t kSignalTag = ~uint64_t{0}, kDaemonTag = kSignalTag - 1;
constexpr milliseconds kRefreshEvery{250};  // of what is live on a terminal
constexpr uint64_t tag(size_t index, uint32_t source) noexcept { return index << 8 | source; }

// Running until something fails, or until a rank stops because it was asked to; settling while
// others may still say why; then TERM, then KILL.
enum class Phase : uint8_t { kRunning, kStopping, kSettling, kTerminating, kKilled };

std::string wall_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

class Supervisor {
 public:
  Supervisor(StopSignals& signals, Renderer& renderer, const SupervisorOptions& options)
      : signals_(signals), renderer_(renderer), options_(options) {}

  Result<void> start(const std::vector<RankSpec>& specs);
  Result<void> loop();
  JobOutcome report();

 private:
  void report_stop(JobOutcome& outcome);
  void report_daemon(JobOutcome& outcome);

  Result<void> watch(int fd, uint64_t id);
  void dispatch(uint64_t id);
  void on_line(RankProcess& rank, RankProcess::Stream stream, std::string_view line);
  void on_event(RankProcess& rank, std::string_view line);
  void on_exit(RankProcess& rank);
  void on_signal(const StopSignal& signal);
  void on_daemon_exit();
  bool respawn();
  void settle(milliseconds window);
  void expect_stop();
  void on_deadline();
  void terminate(milliseconds grace);
  void kill_all();
  void suspend();
  [[nodiscard]] std::vector<RankEnd> ends() const;
  [[nodiscard]] int wait_ms() const;

  StopSignals& signals_;
  Renderer& renderer_;
  const SupervisorOptions& options_;
  UniqueFd epoll_;
  std::vector<RankProcess> ranks_;
  size_t alive_ = 0;
  Phase phase_ = Phase::kRunning;
  Deadline deadline_ = Deadline::never();
  StopSignal stop_signal_;  // the first that asked to stop
  std::optional<ExitStatus> daemon_status_;
  bool made_a_step_ = false;  // under the daemon that there is
  std::optional<DoneEvent> done_;
  std::string committed_;
  int64_t committed_step_ = -1, first_step_ = 1;
  std::string doing_ = "before its first step", stopped_doing_ = doing_;
  std::string failed_doing_, failed_at_;
};

Result<void> Supervisor::watch(int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("watch a rank");
  return {};
}

Result<void> Supervisor::start(const std::vector<RankSpec>& specs) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return fail_errno("create an epoll set");
  NPU_TRY_VOID(watch(signals_.fd(), kSignalTag));
  if (options_.daemon != nullptr) NPU_TRY_VOID(watch(options_.daemon->pidfd(), kDaemonTag));
  ranks_.reserve(specs.size());
  for (const RankSpec& spec : specs) {
    auto started = RankProcess::start(spec);
    if (!started) {
      started.error().message = fmt::format("rank {}: {}", spec.rank, started.error().message);
      return tl::make_unexpected(std::move(started.error()));
    }
    ranks_.push_back(std::move(*started));
    const size_t index = ranks_.size() - 1;
    NPU_TRY_VOID(watch(ranks_[index].child().pidfd(), tag(index, kPidfd)));
    for (const auto stream : {RankProcess::kStdout, RankProcess::kStderr, RankProcess::kEvents}) {
      NPU_TRY_VOID(watch(ranks_[index].fd(stream), tag(index, stream)));
    }
    ++alive_;
  }
  return {};
}

int Supervisor::wait_ms() const {
  if (deadline_.is_never() && !renderer_.live()) return -1;
  const auto left =
      deadline_.remaining(renderer_.live() ? nanoseconds(kRefreshEvery) : std::chrono::hours(1));
  return static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
}

Result<void> Supervisor::loop() {
  std::array<epoll_event, 64> events;
  while (alive_ > 0) {
    const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms());
    if (n < 0 && errno != EINTR) return fail_errno("wait for the ranks");
    // Output first: what a rank said last belongs before the news of its end.
    for (const bool exits : {false, true}) {
      for (int i = 0; i < n; ++i) {
        const uint64_t id = events[static_cast<size_t>(i)].data.u64;
        if ((id < kDaemonTag && (id & 0xff) == kPidfd) == exits) dispatch(id);
      }
    }
    if (n == 0) renderer_.refresh();
    if (deadline_.passed()) on_deadline();
  }
  return {};
}

void Supervisor::dispatch(uint64_t id) {
  if (id == kSignalTag) return on_signal(signals_.next());
  if (id == kDaemonTag) return on_daemon_exit();
  RankProcess& rank = ranks_[id >> 8];
  const auto source = static_cast<uint32_t>(id & 0xff);
  if (source == kPidfd) return on_exit(rank);
  rank.read(
      static_cast<RankProcess::Stream>(source),
      [&](RankProcess::Stream stream, std::string_view line) { on_line(rank, stream, line); });
}

void Supervisor::on_line(RankProcess& rank, RankProcess::Stream stream, std::string_view line) {
  if (stream == RankProcess::kEvents) return on_event(rank, line);
  rank.end.last_log = line.substr(0, 500);
  renderer_.rank_line(rank.end.rank,
                      stream == RankProcess::kStdout ? LogStream::kStdout : LogStream::kStderr,
                      line);
}

void Supervisor::on_event(RankProcess& rank, std::string_view line) {
  const auto event = event_from_json(line);
  if (!event) {
    renderer_.notice(fmt::format("{}: rank {}: {}, ignoring", options_.program, rank.end.rank,
                                 event.error().message));
    return;
  }
  if (const auto* error = std::get_if<ErrorEvent>(&*event)) {
    rank.end.error = *error;  // shown once, by the report, if this rank is the one to blame
    return;
  }
  if (const auto* step = std::get_if<StepEvent>(&*event)) {
    stopped_doing_ = doing_ = fmt::format("epoch {} step {}", step->epoch, step->step);
    made_a_step_ = true;
  } else if (const auto* val = std::get_if<ValStepEvent>(&*event)) {
    doing_ = fmt::format("epoch {} validation {}/{}", val->epoch, val->step_in_epoch,
                         val->steps_per_epoch);
  } else if (const auto* done = std::get_if<DoneEvent>(&*event)) {
    doing_ = "after the last step";
    done_ = *done;  // true once every rank has left
    return;
  } else if (const auto* checkpoint = std::get_if<CheckpointEvent>(&*event)) {
    committed_ = checkpoint->path;
    committed_step_ = std::max(committed_step_, checkpoint->step);
  } else if (const auto* in_memory = std::get_if<MemoryCheckpointEvent>(&*event)) {
    committed_step_ = std::max(committed_step_, in_memory->step);
  } else if (const auto* start = std::get_if<StartEvent>(&*event)) {
    first_step_ = start->resumed_step.value_or(1);
  }
  renderer_.on_event(*event);
}

void Supervisor::on_exit(RankProcess& rank) {
  if (!rank.child().alive()) return;
  const auto status = rank.child().poll();
  if (!status) return;
  rank.drain(
      [&](RankProcess::Stream stream, std::string_view line) { on_line(rank, stream, line); });
  // The pidfd stays readable for ever; only its removal silences it.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.child().pidfd(), nullptr);
  rank.end.status = *status;
  rank.end.ended_at = Clock::now();
  rank.end.ended_by_us = phase_ >= Phase::kTerminating;
  --alive_;
  if (status->ok() || phase_ >= Phase::kTerminating) return;
  if (stopped_as_asked(rank.end)) return expect_stop();
  settle(is_consequence(rank.end) ? options_.settle_consequence : options_.settle);
}

/// One rank was asked to stop, not by us: the others leave with it, after the same step.
void Supervisor::expect_stop() {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kStopping;
  deadline_ = Deadline::after(options_.stop_grace);
}

void Supervisor::settle(milliseconds window) {
  const bool first = phase_ < Phase::kSettling;
  if (first) {
    failed_doing_ = doing_;
    failed_at_ = wall_time();
  }
  const Deadline wanted = Deadline::after(std::max(window, milliseconds(1)));
  if (first || wanted.at() < deadline_.at()) deadline_ = wanted;
  phase_ = Phase::kSettling;
}

void Supervisor::on_daemon_exit() {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, options_.daemon->pidfd(), nullptr);
  daemon_status_ = options_.daemon->poll();
  if (phase_ < Phase::kSettling && daemon_status_ && respawn()) return;
  if (phase_ <= Phase::kSettling) settle(options_.settle);
}

/// Ranks that wait for a daemon find the next one by themselves.
bool Supervisor::respawn() {
  const ExitStatus ended = *daemon_status_;
  const pid_t before = options_.daemon->pid();
  if (!options_.respawn || !options_.respawn(std::exchange(made_a_step_, false))) return false;
  if (!watch(options_.daemon->pidfd(), kDaemonTag)) return false;
  daemon_status_.reset();
  renderer_.notice(
      fmt::format("{}: the private npud (pid {}) was {}, {}; started again (pid {}), the "
                  "ranks go on",
                  options_.program, before, describe(ended), doing_, options_.daemon->pid()));
  return true;
}

void Supervisor::on_signal(const StopSignal& signal) {
  if (!signal) return;
  if (signal.number == SIGTSTP) return suspend();
  if (stop_signal_) return kill_all();  // asked twice: no more patience
  stop_signal_ = signal;
  renderer_.remark(
      fmt::format("{}: {} ({}), {} ranks finish their step and save; again to end them at once",
                  options_.program, signal.number == SIGINT ? "interrupted" : "asked to stop",
                  signal.text(), alive_));
  terminate(options_.stop_grace);
}

void Supervisor::suspend() {
  for (RankProcess& rank : ranks_) rank.child().signal(SIGSTOP);
  renderer_.hide();
  ::kill(::getpid(), SIGSTOP);  // continues here after SIGCONT
  for (RankProcess& rank : ranks_) rank.child().signal(SIGCONT);
}

void Supervisor::on_deadline() {
  if (phase_ == Phase::kSettling || phase_ == Phase::kStopping) {
    return terminate(options_.failure_grace);
  }
  kill_all();
}

void Supervisor::terminate(milliseconds grace) {
  phase_ = Phase::kTerminating;
  deadline_ = Deadline::after(std::max(grace, milliseconds(1)));
  for (RankProcess& rank : ranks_) rank.child().signal(SIGTERM);
}

void Supervisor::kill_all() {
  phase_ = Phase::kKilled;
  deadline_ = Deadline::never();
  for (RankProcess& rank : ranks_) rank.child().signal(SIGKILL);
}

std::vector<RankEnd> Supervisor::ends() const {
  std::vector<RankEnd> all;
  for (const RankProcess& rank : ranks_) all.push_back(rank.end);
  return all;
}

/// The launcher was told to stop, and not every rank could do so in time.
void Supervisor::report_stop(JobOutcome& outcome) {
  ErrorEvent stopped;
  stopped.code = code_name(Code::kAborted);
  stopped.exit_code = outcome.exit_code = 128 + stop_signal_.number;
  stopped.message = fmt::format("stopped by {} at {}", stop_signal_.text(), doing_);
  outcome.reason = stopped.message;
  renderer_.on_event(stopped);
}

void Supervisor::report_daemon(JobOutcome& outcome) {
  ErrorEvent lost;
  lost.code = code_name(Code::kUnavailable);
  lost.exit_code = outcome.exit_code = static_cast<int>(Exit::kNoDaemon);
  lost.pid = options_.daemon->pid();
  lost.message = fmt::format("the private npud (pid {}) failed first: {}, {}, {}", lost.pid,
                             describe(*daemon_status_), failed_doing_, failed_at_);
  outcome.reason = fmt::format("the private npud (pid {}) {}, {}", lost.pid,
                               describe(*daemon_status_), failed_doing_);
  renderer_.on_event(lost);
  renderer_.notice(fmt::format("{}: {}", options_.program, lost.message));
}

JobOutcome Supervisor::report() {
  renderer_.finish();
  const std::vector<RankEnd> all = ends();
  const auto culprit = pick_culprit(all);
  JobOutcome outcome{.stop_signal = stop_signal_.number,
                     .first_step = first_step_,
                     .committed_step = committed_step_,
                     .committed = committed_,
                     .done = done_};
  if (!culprit && !daemon_status_) return outcome;
  if (culprit && stopped_as_asked(all[*culprit])) {
    renderer_.remark(fmt::format("{}: stopped at {}; launch the job again to go on",
                                 options_.program, stopped_doing_));
    outcome.exit_code = kExitStopped;
    return outcome;
  }
  outcome.well = false;
  if (stop_signal_ && (!culprit || all[*culprit].ended_by_us)) {
    report_stop(outcome);
  } else if (!culprit ||
             (daemon_status_ && (all[*culprit].ended_by_us || is_consequence(all[*culprit])))) {
    report_daemon(outcome);
  } else {
    const Failure failure{*culprit, failed_doing_, failed_at_};
    renderer_.on_event(failure_event(all, failure));
    renderer_.notice(fmt::format("{}: {}", options_.program, format_failure(all, failure)));
    outcome.exit_code = all[*culprit].status.code();
    outcome.failed_rank = all[*culprit].rank;
    outcome.reason = failure_reason(all, failure);
  }
  return outcome;
}

}  // namespace

Result<JobOutcome> supervise(const std::vector<RankSpec>& ranks, StopSignals& signals,
                             Renderer& renderer, const SupervisorOptions& options) {
  renderer.set_interrupt(signals.fd());
  Supervisor supervisor(signals, renderer, options);
  NPU_TRY_VOID(supervisor.start(ranks));
  NPU_TRY_VOID(supervisor.loop());
  return supervisor.report();
}

}  // namespace npu::client
