#include "daemon/collectives/engine.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/lockfree/spsc_queue.hpp>
#include <deque>
#include <thread>
#include <vector>

#include "daemon/collectives/engine_run.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/fd.hpp"
#include "shm/futex.hpp"

namespace npu::daemon {
namespace {

struct Command {
  enum class Kind : uint8_t { kAdd, kAbort, kDrain, kLeft, kRemove, kStop };
  Kind kind = Kind::kStop;
  uint64_t run = 0;
  uint32_t rank = 0;
  std::shared_ptr<RunMemory> memory;
  RunFailure failure;
};

template <typename T>
using Queue = boost::lockfree::spsc_queue<T*, boost::lockfree::capacity<1024>>;

/// A pause of the whole daemon longer than this is not counted against any rank (a stopped VM, an
/// overloaded host).
constexpr uint64_t kPauseNs = 1'000'000'000;

size_t allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
}

/// Rounds without work in which the coordinator hands its core on before it sleeps: most often the
/// ranks that it has just released come back within them, and need not wake it.
constexpr int kYields = 16;

}  // namespace

struct Engine::Impl {
  explicit Impl(uint32_t helper_count) {
    for (uint32_t i = 0; i < helper_count; ++i) {
      helpers.push_back(std::make_unique<Helper>(parker, i + 1));
    }
    pulses.push_back(&pulse);
    for (const auto& helper : helpers) pulses.push_back(&helper->pulse());
  }

  void send(std::unique_ptr<Command> command) {
    // The coordinator never waits for this thread, so a full queue empties; clients that come and
    // go faster than a starved coordinator looks must not end the daemon.
    while (!commands.push(command.get())) ::sched_yield();
    (void)command.release();
    parker.notify();
  }
  void emit(EngineEvent event) {
    unsent.push_back(std::make_unique<EngineEvent>(std::move(event)));
    send_events();
  }
  /// What the queue does not take waits for the next round: this thread waits for nobody.
  void send_events() {
    bool any = false;
    while (!unsent.empty() && events.push(unsent.front().get())) {
      (void)unsent.front().release();
      unsent.pop_front();
      any = true;
    }
    const uint64_t one = 1;
    if (any) (void)!::write(event_fd.get(), &one, sizeof(one));
  }

  void loop();
  bool run_commands();
  void execute(Command& command);
  bool serve(EngineRun& run, uint64_t now);
  bool serve_all(uint64_t now);
  void abort(EngineRun& run, const RunFailure& failure);
  void warn(EngineRun& run, std::string text);
  bool remove_quiet_runs();
  void sleep();
  [[nodiscard]] bool work_waits() const;
  [[nodiscard]] EngineRun* find(uint64_t id);

  Parker parker;
  Pulse pulse{"npud-coord"};
  std::vector<std::unique_ptr<Helper>> helpers;
  std::vector<const Pulse*> pulses;
  const size_t cores = allowed_cores();
  CostModel costs;
  EngineCounters* counters = nullptr;
  Queue<Command> commands;    // control server -> coordinator
  Queue<EngineEvent> events;  // coordinator -> control server
  std::deque<std::unique_ptr<EngineEvent>> unsent;
  UniqueFd event_fd;
  std::vector<std::unique_ptr<EngineRun>> runs;
  bool stop = false;
  std::thread thread;
};

EngineRun* Engine::Impl::find(uint64_t id) {
  for (auto& run : runs) {
    if (run->memory().id == id) return run.get();
  }
  return nullptr;
}

void Engine::Impl::abort(EngineRun& run, const RunFailure& failure) {
  if (run.aborted()) return;
  const uint64_t id = run.memory().id;
  Error error = run.abort(failure);
  const int64_t pid =
      failure.culprit >= 0 ? run.memory().ranks[static_cast<size_t>(failure.culprit)].pid : 0;
  emit({EngineEvent::Kind::kAborted, id, std::move(error), failure.culprit, pid});
}

void Engine::Impl::execute(Command& command) {
  if (command.kind == Command::Kind::kStop) {
    stop = true;
    return;
  }
  if (command.kind == Command::Kind::kAdd) {
    runs.push_back(std::make_unique<EngineRun>(std::move(command.memory), helpers, parker, costs));
    RunMemory& memory = runs.back()->memory();
    memory.board()->members.state.store(static_cast<uint32_t>(shm::RunState::kRunning),
                                        std::memory_order_release);
    ring_board(memory, memory.all_ranks());
    return;
  }
  EngineRun* run = find(command.run);
  if (run == nullptr) return;
  if (command.kind == Command::Kind::kAbort) abort(*run, command.failure);
  if (command.kind == Command::Kind::kDrain) run->drain(command.failure, now_ns());
  if (command.kind == Command::Kind::kLeft) run->member_left(command.rank);
  if (command.kind == Command::Kind::kRemove) run->removing = true;
}

void Engine::Impl::warn(EngineRun& run, std::string text) {
  emit({EngineEvent::Kind::kWarning, run.memory().id,
        Error{Code::kDeadlineExceeded, std::move(text), Exit::kOk}, -1, 0});
}

bool Engine::Impl::run_commands() {
  Command* raw = nullptr;
  bool any = false;
  while (commands.pop(raw)) {
    const std::unique_ptr<Command> command(raw);
    execute(*command);
    any = true;
  }
  return any;
}

bool Engine::Impl::serve(EngineRun& run, uint64_t now) {
  RunFailure failure;
  std::string warning;
  if (!run.aborted()) {
    if (!run.take_submissions(now, failure) || run.judge(now, failure, warning)) {
      abort(run, failure);
      return true;
    }
    if (!warning.empty()) warn(run, std::move(warning));
  }
  bool moved = false;
  while (run.start_ready()) moved = true;  // small ones complete here, large ones go to the pool
  moved |= run.advance();
  if (run.just_resumed()) emit({EngineEvent::Kind::kResumed, run.memory().id, {}, -1, 0});
  return moved;
}

bool Engine::Impl::serve_all(uint64_t now) {
  const auto live = std::count_if(runs.begin(), runs.end(),
                                  [](const auto& run) { return !run->aborted(); });
  const size_t sharing = helpers_to_share(static_cast<size_t>(live), helpers.size(), cores);
  bool moved = false;
  for (auto& run : runs) {
    run->share_with(sharing);
    moved |= serve(*run, now);
  }
  return moved;
}

bool Engine::Impl::remove_quiet_runs() {
  bool any = false;
  for (size_t i = 0; i < runs.size();) {
    if (!runs[i]->removing || !runs[i]->quiet()) {
      ++i;
      continue;
    }
    const uint64_t id = runs[i]->memory().id;
    runs.erase(runs.begin() + static_cast<ptrdiff_t>(i));
    emit({EngineEvent::Kind::kRemoved, id, {}, -1, 0});
    any = true;
  }
  return any;
}

bool Engine::Impl::work_waits() const {
  if (commands.read_available() != 0) return true;
  for (const auto& run : runs) {
    if (run->removing && run->quiet()) return true;
    if (run->can_advance()) return true;
    if (!run->aborted() && run->has_submissions()) return true;
  }
  return false;
}

void Engine::Impl::sleep() {
  // Order of the protocol: flags up, words read, inputs checked again, sleep (see Parker and
  // Submitter::submit).
  const uint32_t ticket = parker.prepare();
  std::array<shm::FutexWaiter, 128> waiters;
  size_t n = 0;
  waiters[n++] = {&parker.word(), ticket};
  for (auto& run : runs) {
    run->set_asleep(1);
    // Beyond, or a doorbell that rings for nothing: found by the next wait slice.
    if (n == waiters.size() || run->aborted() || run->muted()) continue;
    const auto& word = run->memory().hints()->doorbell.value;
    waiters[n++] = {&word, word.load(std::memory_order_seq_cst)};
  }
  if (!work_waits()) {
    const nanoseconds limit =
        runs.empty() ? nanoseconds(std::chrono::seconds(10)) : nanoseconds(shm::kWaitSlice);
    pulse.rest();
    shm::futex_wait_any({waiters.data(), n}, limit);
  }
  for (auto& run : runs) run->set_asleep(0);
  parker.cancel();
}

void Engine::Impl::loop() {
  ::pthread_setname_np(::pthread_self(), "npud-coord");
  uint64_t last = now_ns();
  int idle_rounds = 0;
  while (!stop) {
    pulse.beat();
    bool moved = run_commands();
    const uint64_t now = now_ns();
    if (now - last > kPauseNs + static_cast<uint64_t>(nanoseconds(shm::kWaitSlice).count())) {
      for (auto& run : runs) run->forgive(now - last);
    }
    last = now;
    moved |= serve_all(now);
    moved |= remove_quiet_runs();
    if (!unsent.empty()) send_events();
    idle_rounds = moved ? 0 : idle_rounds + 1;
    if (moved || stop) continue;
    if ((idle_rounds <= kYields && !runs.empty()) || !unsent.empty()) {
      ::sched_yield();
    } else {
      sleep();
      for (auto& run : runs) run->count_kicks(now_ns());
      if (runs.empty()) last = now_ns();
    }
  }
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options) {
  const std::atomic<uint32_t> word{0};
  const shm::FutexWaiter probe{&word, 1};  // differs: returns at once where the call exists
  if (!shm::futex_wait_any({&probe, 1}, nanoseconds(1))) {
    return fail_exit(
        Code::kUnavailable, Exit::kBadConfig,
        "start the engine: this kernel lacks futex_waitv; Linux 5.16 or newer is needed");
  }
  const uint32_t threads = std::clamp(options.threads, 1u, shm::kScratchSlots);
  auto impl = std::make_unique<Impl>(threads - 1);
  impl->event_fd.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->event_fd.valid()) return fail_errno("create the engine's eventfd");
  impl->counters = options.counters;
  impl->costs = calibrate(impl->helpers, impl->parker);
  Impl* raw = impl.get();
  impl->thread = std::thread([raw] { raw->loop(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::~Engine() {
  impl_->send(std::make_unique<Command>());
  impl_->thread.join();
  impl_->helpers.clear();
  EngineEvent* event = nullptr;
  while (impl_->events.pop(event)) delete event;
  Command* command = nullptr;
  while (impl_->commands.pop(command)) delete command;
}

void Engine::add_run(std::shared_ptr<RunMemory> run) {
  run->totals = impl_->counters;
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::kAdd;
  command->memory = std::move(run);
  impl_->send(std::move(command));
}

void Engine::abort_run(uint64_t run, Code code, int32_t culprit, std::string what, bool complete) {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::kAbort;
  command->run = run;
  command->failure = {code, culprit, std::move(what), complete};
  impl_->send(std::move(command));
}

void Engine::drain_run(uint64_t run, Code code, std::string what) {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::kDrain;
  command->run = run;
  command->failure = {code, -1, std::move(what), false};
  impl_->send(std::move(command));
}

void Engine::member_left(uint64_t run, uint32_t rank) {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::kLeft;
  command->run = run;
  command->rank = rank;
  impl_->send(std::move(command));
}

void Engine::remove_run(uint64_t run) {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::kRemove;
  command->run = run;
  impl_->send(std::move(command));
}

int Engine::event_fd() const noexcept { return impl_->event_fd.get(); }

bool Engine::next_event(EngineEvent& event) {
  EngineEvent* raw = nullptr;
  if (!impl_->events.pop(raw)) {
    uint64_t count = 0;
    (void)!::read(impl_->event_fd.get(), &count, sizeof(count));
    // An event pushed between the pop and the read is not lost: look once more.
    if (!impl_->events.pop(raw)) return false;
  }
  event = std::move(*raw);
  delete raw;
  return true;
}

const CostModel& Engine::costs() const noexcept { return impl_->costs; }

std::span<const Pulse* const> Engine::pulses() const noexcept { return impl_->pulses; }

uint32_t Engine::threads() const noexcept {
  return 1 + static_cast<uint32_t>(impl_->helpers.size());
}

}  // namespace npu::daemon
