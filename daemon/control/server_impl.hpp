// The state of the control server, shared by the files that implement it: server.cpp (life cycle,
// sessions), server_limits.cpp (who may come in and how much they may ask), server_attach.cpp (runs),
// server_adopt.cpp (runs of an earlier daemon), server_queue.cpp (who waits for devices),
// server_checkpoint.cpp (checkpoints made), server_checkpoint_read.cpp (and read), server_info.cpp
// (listings), server_trace.cpp (flight recorders), server_admin.cpp (what administrators ask),
// server_metrics.cpp (metrics), server_drain.cpp (signals and the end).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/adopt/crash_guard.hpp"
#include "daemon/checkpoint/memory_store.hpp"
#include "daemon/checkpoint/store.hpp"
#include "daemon/collectives/engine.hpp"
#include "daemon/control/event_loop.hpp"
#include "daemon/control/limits.hpp"
#include "daemon/control/memory_budget.hpp"
#include "daemon/control/queue/launch_queue.hpp"
#include "daemon/control/run_table.hpp"
#include "daemon/control/server.hpp"
#include "daemon/control/session.hpp"
#include "daemon/control/worker.hpp"
#include "daemon/metrics/view.hpp"
#include "shm/channel.hpp"
#include "shm/segment.hpp"

namespace npu::daemon {

struct SnapshotPlan;

/// A run with its flight recorder, going on or over.
struct TracedRun {
  shm::RunRow row{};
  std::shared_ptr<FlightRecorder> recorder;
};

class Server::Impl {
 public:
  Impl(ServerOptions options, EventLoop loop);

  [[nodiscard]] Result<void> open(Listener listener);
  void run();
  void use_quotas(std::shared_ptr<const Quotas> quotas);

  ServerOptions options;
  std::string socket_path;

 private:
  // server.cpp
  [[nodiscard]] Result<void> listen(Listener listener);
  [[nodiscard]] Result<void> watch_all();
  void accept_clients();
  void begin_session(UniqueFd socket, Peer peer);
  void look_after_sessions();
  void on_closed(Session& session);
  void on_readable(uint64_t id, uint32_t events);
  void on_message(Session& session, const shm::Received& message);
  void on_hello(Session& session, const shm::Received& message);
  void flush(Session& session);
  void end_session(uint64_t id, const char* how);

  // server_drain.cpp
  void on_signal(uint32_t number, int64_t pid, int64_t uid);
  void on_stop_signal();
  void on_reload_signal();
  void begin_drain();
  /// Ends the runs whose collectives took longer than the drain may.
  void hurry_drain();
  [[nodiscard]] bool drained() const;
  [[nodiscard]] Scene scene() const;

  [[nodiscard]] Session* find_session(uint64_t id);

  template <typename M>
  void reply(Session& session, const M& message, std::vector<UniqueFd> fds = {}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&message);
    enqueue(session, {std::vector<std::byte>(bytes, bytes + sizeof(M)), std::move(fds)});
  }
  void reply_error(Session& session, uint64_t request, const Error& error, int32_t culprit = -1,
                   int64_t pid = 0, shm::MessageType type = shm::MessageType::kError);
  void enqueue(Session& session, Outgoing outgoing);

  // server_limits.cpp
  [[nodiscard]] House house(const Peer& peer, int fd) const;
  [[nodiscard]] const Quota& quota_of(int64_t uid) const noexcept { return options.quotas->of(uid); }
  /// Tokens that the session has, or its user if those are fewer.
  [[nodiscard]] double messages_left(Session& session);
  void take_message(Session& session);
  void forget_idle_users();
  /// Says why, then closes.
  void refuse(UniqueFd socket, const Peer* peer, const Error& error);
  /// Out of descriptors: takes one client off the listener's queue with the reserve.
  void shed_connection();
  [[nodiscard]] Result<void> take_reserve();
  /// Ends a session that does not keep to the protocol; `why` continues "this connection ...".
  void expel(uint64_t id, const char* why);
  /// Gives up on a session that does not take its answers; its end follows as a hang-up.
  void cut(Session& session, const char* why);
  void slow(Session& session);
  void watch(const Session& session);
  /// A line about a client's fault; a flood of them is counted instead.
  void complain(int64_t uid, int64_t pid, std::string_view what);
  /// Counts a listing or opening, or answers that there are too many.
  [[nodiscard]] bool begin_disk_task(Session& session, uint64_t request);
  void end_disk_task(int64_t uid, uint64_t session);
  [[nodiscard]] Result<void> begin_allocation(int64_t uid, uint64_t bytes);
  void end_allocation(int64_t uid, uint64_t bytes);
  /// Counts a snapshot that is to be written, or says that there are too many bytes of them.
  [[nodiscard]] Result<void> begin_staged(int64_t uid, const Snapshot& snapshot);
  void end_staged(int64_t uid, uint64_t bytes) { in_work_[uid].staged_bytes -= bytes; }
  /// May the peer see what belongs to `uid`?
  [[nodiscard]] static bool may_see(const Session& session, int64_t uid) {
    return allowed(session.peer.rights(), Action::kReadStatus, uid);
  }

  // server_attach.cpp
  struct NewSegments {
    Result<void> outcome;
    shm::Segment arena, submit, status;
  };
  void on_attach(Session& session, const shm::Received& message);
  [[nodiscard]] Result<void> ensure_board(Run& run, uint64_t arena_bytes);
  void on_segments(uint64_t session_id, uint64_t run_id, uint32_t rank, uint64_t request,
                   NewSegments segments);
  void on_detach(Session& session, uint64_t request);
  void leave_run(Session& session, const char* how);
  /// `complete`: the sentence is whole; otherwise what was going on is added.
  void abort_run(Run& run, Code code, int32_t culprit, const std::string& what,
                 bool complete = false);
  void tell_members(Run& run, const Error& error, int32_t culprit, int64_t pid);
  void release_run(Run& run);
  void on_engine_events();

  // server_queue.cpp
  void on_queue_join(Session& session, const shm::Received& message);
  /// Gives out what became free, and tells the others where they stand. Does nothing if nothing
  /// changed.
  void serve_queue();
  [[nodiscard]] bool may_have(const Ticket& ticket) const;
  /// One run of a name at a time, of one user.
  [[nodiscard]] bool name_taken(const Ticket& ticket) const;
  /// "devices 0-3: your run 'a'; device 4: another user", for who may know that much.
  [[nodiscard]] std::string holders(uint32_t devices, const Rights& who) const;
  [[nodiscard]] std::string why_waiting(const Ticket& ticket) const;
  /// Errors: unavailable, exit 75, when the device is kept for another launch.
  [[nodiscard]] Result<void> check_line(const Session& session, const JoinRequest& join) const;
  /// Devices of launches of `uid` that no run has taken up, those of `except` left out.
  [[nodiscard]] uint64_t reserved_devices(int64_t uid, const std::string& except) const;
  void send_pending(Session& session, uint64_t request);
  /// Pid of the launcher that waited for the run's devices, 0 if none did.
  [[nodiscard]] int64_t launcher_of(const Run& run) const;
  /// Nobody waits for a daemon that ends.
  void dismiss_queue();

  // server_admin.cpp
  void on_evict(Session& session, const shm::Received& message);
  void on_drain(Session& session, uint64_t request);
  /// What `evict` is about: runs and tickets that the session may end.
  struct Evictable {
    std::vector<Run*> runs;
    std::vector<uint64_t> tickets;  // by session
    int64_t uid = -1;               // of all of them
  };
  [[nodiscard]] Result<Evictable> find_evictable(const Session& session, const shm::Evict& evict);

  // server_adopt.cpp
  void on_reconnect(Session& session, const shm::Received& message);
  [[nodiscard]] Result<void> take_rank(Run& run, const Session& session,
                                       const shm::Reconnect& message,
                                       std::span<const UniqueFd> fds);
  [[nodiscard]] Result<void> make_journal(Run& run, uint64_t arena_bytes);
  [[nodiscard]] Result<void> make_board(Run& run);
  [[nodiscard]] Result<void> prepare_pages(Run& run, uint32_t left);
  [[nodiscard]] Result<void> send_pages(Run& run, uint32_t left);
  [[nodiscard]] bool is_in_use(uint64_t journal_inode) const;
  /// Ranks of `left` have detached and are not waited for.
  void complete_adoption(Run& run, uint32_t left);
  /// Ranks that do not come back.
  void look_after_adoptions();
  /// It has gone on, or is over.
  void end_resumption(Run& run);
  /// Counts deaths no more once every run goes on.
  void settle_adoptions();
  void answer_from_store(Session& session, const shm::CheckpointCommit& commit);

  // server_checkpoint.cpp
  void on_commit(Session& session, const shm::Received& message);
  void commit_arrived(Run& run, const CommitGathering& gathering);
  void write_snapshot(Run& run, const CommitGathering& gathering,
                      std::shared_ptr<Snapshot> snapshot);
  void keep_snapshot(Run& run, const CommitGathering& gathering,
                     std::shared_ptr<Snapshot> snapshot);
  /// Is there room for a run to keep that in memory? Then it is counted as staged.
  [[nodiscard]] Result<void> room_to_keep(const Run& run, const Snapshot& snapshot);
  /// Lets go of what a run that ended well keeps in memory, and of what nobody uses any more.
  void forget_kept(const Run& run);
  void look_after_kept();
  void answer_commit(uint64_t run_id, const CommitGathering& gathering,
                     const Result<CommitReport>& report);

  // server_checkpoint_read.cpp
  void on_list(Session& session, const shm::Received& message);
  void on_open(Session& session, const shm::Received& message);

  // server_info.cpp
  void on_info(Session& session, uint64_t request);
  void on_ps(Session& session, uint64_t request);
  void send_runs(Session& session, uint64_t request);
  [[nodiscard]] static shm::RunRow row_of(const Run& run);

  // server_trace.cpp
  void on_trace_open(Session& session, const shm::Received& message);
  [[nodiscard]] Result<TracedRun> find_trace(const std::string& name, const Session& session);
  /// Keeps what `npu ps` shows of a run that is over. Call while its memory is there.
  void remember(const Run& run);
  /// The records of an aborted run as a file below the state directory.
  void write_trace(const Run& run);

  // server_metrics.cpp
  void on_metrics(Session& session, uint64_t request);
  [[nodiscard]] MetricsView metrics_view(const Session& session);
  void view_devices(const Session& session, MetricsView& view) const;
  void view_runs(const Session& session, MetricsView& view) const;
  void count_leave(const Run& run, const Session& session, std::string_view how);
  void count_commit(const Run* run, const Result<CommitReport>& report);

  EventLoop loop_;
  Service service_;
  UniqueFd lock_, listener_, signals_;
  bool own_listener_ = true;      // else the socket's file is somebody else's
  UniqueFd reserve_;              // given up for a moment when there are no descriptors left
  bool listener_paused_ = false;  // not even that helped
  MemoryBudget memory_budget_;
  struct InWork {
    uint32_t disk_tasks = 0, allocations = 0;
    uint64_t staged_bytes = 0;
    std::optional<TokenBucket> messages;  // none: no limit
  };
  std::map<int64_t, InWork> in_work_;  // by uid: what other threads do for it, how much it says
  uint64_t promised_bytes_ = 0;        // being allocated
  RunTable table_;
  LaunchQueue queue_;
  // Before the workers, whose destructors finish what uses them.
  std::optional<CheckpointStore> store_;
  MemoryStore kept_;  // checkpoints in memory
  EngineCounters engine_counters_;  // outlives the engine
  ControlCounters counters_;
  /// A text serves all who ask within a moment and may see the same: by uid, -1 for those who see everything.
  struct MetricsText {
    UniqueFd file;
    uint64_t bytes = 0;
    Deadline fresh = Deadline::never();
  };
  std::map<int64_t, MetricsText> metrics_texts_;
  double start_unix_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Worker> segments_;     // allocates and unmaps
  std::unique_ptr<Worker> checkpoints_;  // the only one that writes to disk
  std::map<uint64_t, std::unique_ptr<Session>> sessions_;
  CrashGuard crash_guard_;
  size_t adopting_ = 0, resuming_ = 0;  // runs whose ranks come back; that have not gone on yet
  bool has_resumed_ = false;            // one of them has, since the others were settled
  Deadline return_window_ = Deadline::never();  // until when runs are taken over
  std::deque<TracedRun> ended_;         // oldest first, at most kEndedRuns
  uint64_t next_session_ = 1;
  size_t closing_ = 0;    // sessions whose socket closed and whose process may be dying
  size_t slowed_ = 0;     // sessions that ask too much
  bool leaving_ = false;  // launcher_only: waits for the runs to end
  pid_t launcher_ = 0;
  bool draining_ = false;
  bool hurried_ = false;  // the drain's time is over
  Clock::time_point drain_deadline_{};
};

}  // namespace npu::daemon
