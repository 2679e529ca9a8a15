// The engine: one coordinator thread that reads submissions, matches ranks, runs small collectives
// itself and large ones together with its helper threads, and tells every rank how it went. It
// never waits for a client.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/collectives/cost_model.hpp"
#include "daemon/collectives/pulse.hpp"
#include "daemon/collectives/run_memory.hpp"
#include "shm/base/error.hpp"

namespace npu::daemon {

struct EngineOptions {
  uint32_t threads = 1;                // coordinator included; at most shm::kScratchSlots
  EngineCounters* counters = nullptr;  // of all its runs, if they are to be counted; outlives it
};

/// What the engine tells the control server.
struct EngineEvent {
  enum class Kind : uint8_t { kAborted, kRemoved, kWarning, kResumed };
  Kind kind = Kind::kAborted;
  uint64_t run = 0;
  // kResumed: a run that was taken over has completed its first operation.
  Error error;  // kAborted: what every member was told; kWarning: what waits for whom
  int32_t culprit = -1;
  int64_t pid = 0;
};

/// Thread: all members are called by the control server's thread. After add_run the engine alone
/// writes the run's board and status pages, until the kRemoved event.
class Engine {
 public:
  /// Errors: unavailable if the kernel lacks futex_waitv. Cost: calibrates for some 15 ms.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> start(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// All ranks are attached; publishes the running state and starts to serve.
  void add_run(std::shared_ptr<RunMemory> run);
  /// Ends the run: every member is told. `what` begins the sentence ("rank 3 (pid 4711) died"); the
  /// engine adds what was going on. Idempotent.
  void abort_run(uint64_t run, Code code, int32_t culprit, std::string what, bool complete = false);
  /// As abort_run, once every operation that a rank has asked for by now is done; what is asked for later
  /// is served meanwhile. The caller gives up on ranks that never come, with abort_run.
  void drain_run(uint64_t run, Code code, std::string what);
  /// The rank detached in order; a collective that needs it later aborts the run.
  void member_left(uint64_t run, uint32_t rank);
  /// Forgets the run; kRemoved follows when no thread touches its memory any more.
  void remove_run(uint64_t run);

  /// Readable when next_event has something.
  [[nodiscard]] int event_fd() const noexcept;
  [[nodiscard]] bool next_event(EngineEvent& event);
  [[nodiscard]] uint32_t threads() const noexcept;
  /// One a thread, as long as the engine lives.
  [[nodiscard]] std::span<const Pulse* const> pulses() const noexcept;
  /// As measured at the start.
  [[nodiscard]] const CostModel& costs() const noexcept;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace npu::daemon
