// Runs of an earlier daemon: their ranks come back with the memory that they had, and when all are
// there the run goes on where it was (docs/design/019-daemon-restart.md).
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <ctime>
#include <utility>

#include "daemon/adopt/returned_rank.hpp"
#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/base/rank_list.hpp"

namespace npu::daemon {
namespace {

/// From the first rank that comes back to the last; they all try every 50 ms.
constexpr auto kAdoptionLimit = std::chrono::seconds(8);
/// What a rank that comes back is told when no run is taken over; nothing if they are.
const char* no_takeover(const CrashGuard& guard, bool busy, bool leaving, bool late) {
  if (busy) return "this connection holds a device already";
  if (leaving) return "the daemon is shutting down";
  if (late) return "the daemon was started too long ago";
  return guard.allowed() ? nullptr : "npud died twice while it did, so this one does not";
}

uint32_t returned_mask(const Run& run) noexcept {
  uint32_t mask = 0;
  for (uint32_t r = 0; r < run.world; ++r) mask |= run.members[r].ready ? 1u << r : 0;
  return mask;
}

/// Ranks of one run hold one hint page and one journal, and each an arena of its own.
Result<void> check_together(const Adoption& adoption, const ReturnedRank& back, uint32_t rank,
                            bool first) {
  if (!first &&
      (back.hints.inode != adoption.hints_inode || back.journal.inode != adoption.journal_inode)) {
    return fail(Code::kDataLoss, "rank {}'s {} is not that of the others", rank,
                back.hints.inode != adoption.hints_inode ? "hint page" : "run journal");
  }
  for (const uint64_t inode : adoption.arena_inodes) {
    if (inode == back.arena.inode) {
      return fail(Code::kDataLoss, "rank {} brings an arena that another rank has brought", rank);
    }
  }
  return {};
}

/// Of a rank that has left: the engine looks at its pages all the same.
Result<void> make_empty_pages(uint64_t generation, RankMemory& memory) {
  NPU_TRY(shm::Segment submit, shm::create_segment({.kind = shm::SegmentKind::kSubmit,
                                                    .size_bytes = sizeof(shm::SubmitPage),
                                                    .generation = generation}));
  NPU_TRY(shm::Segment status, shm::create_segment({.kind = shm::SegmentKind::kStatus,
                                                    .size_bytes = sizeof(shm::StatusPage),
                                                    .generation = generation}));
  memory.submit = std::move(submit.mapping);
  memory.status = std::move(status.mapping);
  return {};
}

}  // namespace

void Server::Impl::on_reconnect(Session& session, const shm::Received& message) {
  const auto wish = message.as<shm::Reconnect>();
  if (wish.reserved != 0 || message.fds.size() != kReturnedFds) {
    expel(session.id, wish.reserved != 0 ? "set reserved bytes" : "sent unexpected descriptors");
    return;
  }
  const uint64_t request = wish.header.request;
  const auto refuse_it = [&](const Error& error) { reply_error(session, request, error); };
  if (const char* why =
          no_takeover(crash_guard_, session.run != 0 || session.queued, draining_ || leaving_,
                      return_window_.passed());
      why != nullptr) {
    refuse_it({Code::kFailedPrecondition, fmt::format("take a run over: {}", why),
               Exit::kNoDaemon});
    return;
  }
  crash_guard_.begin();
  NPU_FAILPOINT("adopt.before_join");
  const std::string name = shm::get_text(wish.run);
  auto joined = table_.join({.run = name,
                             .key = shm::get_text(wish.key),
                             .world = wish.world,
                             .rank = wish.rank,
                             .device = wish.device,
                             .arena_bytes = wish.arena_bytes,
                             .job_hash = wish.job_hash,
                             .session = session.id,
                             .uid = session.peer.uid,
                             .pid = session.peer.pid,
                             .now_unix = std::time(nullptr),
                             .survives = true,
                             .quota = quota_of(session.peer.uid),
                             .reserved_devices = reserved_devices(session.peer.uid, name),
                             .comes_back = true});
  if (!joined) {
    refuse_it(joined.error());
    settle_adoptions();
    return;
  }
  Run& run = **joined;
  session.run = run.id;
  session.rank = wish.rank;
  if (run.adoption->deadline.is_never()) {
    run.adoption->deadline = Deadline::after(kAdoptionLimit);
    ++adopting_;
  }
  if (const auto taken = take_rank(run, session, wish, message.fds); !taken) {
    const Error error{taken.error().code,
                      fmt::format("take run '{}' over: {}", run.name, taken.error().message),
                      Exit::kNoDaemon};
    refuse_it(error);
    session.run = 0;
    abort_run(run, error.code, static_cast<int32_t>(wish.rank), error.message, true);
    if (table_.leave(run, wish.rank)) release_run(run);
    look_after_adoptions();
    return;
  }
  // Read once: a member could change the journal meanwhile.
  const uint32_t left =
      run.memory->journal.left_mask() & run.memory->all_ranks() & ~returned_mask(run);
  if ((returned_mask(run) | left) == run.memory->all_ranks()) complete_adoption(run, left);
}

/// A journal belongs to one run: a client could bring that of a run which goes on here.
bool Server::Impl::is_in_use(uint64_t journal_inode) const {
  return std::ranges::any_of(table_.runs(), [&](const auto& run) {
    struct stat st {};
    return run->journal_fd.valid() && ::fstat(run->journal_fd.get(), &st) == 0 &&
           st.st_ino == journal_inode;
  });
}

Result<void> Server::Impl::take_rank(Run& run, const Session& session, const shm::Reconnect& wish,
                                     std::span<const UniqueFd> fds) {
  const uint32_t rank = wish.rank;
  const bool first = !run.memory->journal.valid();
  if (first) run.memory->generation = wish.generation;
  if (run.memory->generation != wish.generation) {
    return fail(Code::kDataLoss, "rank {} was in generation {}, the others in {}", rank,
                wish.generation, run.memory->generation);
  }
  NPU_TRY(
      ReturnedRank back,
      take_back(
          fds,
          {.generation = wish.generation, .device = wish.device, .rank = rank, .world = run.world},
          wish.arena_bytes));
  NPU_TRY_VOID(check_together(*run.adoption, back, rank, first));
  Adoption& adoption = *run.adoption;
  if (first) {
    if (is_in_use(back.journal.inode)) {
      return fail(Code::kAlreadyExists, "rank {} brings the journal of a run that is here", rank);
    }
    NPU_TRY(run.memory->journal, Journal::adopt(std::move(back.journal.mapping), run.world));
    if (!run.memory->journal.complete()) {
      run.memory->journal = Journal();
      return fail(
          Code::kUnimplemented,
          "it has communicators that were made by split, of which the journal knows nothing");
    }
    adoption.journal_inode = back.journal.inode;
    adoption.hints_inode = back.hints.inode;
    run.memory->hints_mapping = std::move(back.hints.mapping);
    NPU_TRY(run.hints_fd, duplicate_fd(fds[3].get()));
    NPU_TRY(run.journal_fd, duplicate_fd(fds[4].get()));
  }
  adoption.arena_inodes[rank] = back.arena.inode;
  adoption.requests[rank] = wish.header.request;
  adoption.status_fds[rank] = std::move(back.status.fd);
  RankMemory& memory = run.memory->ranks[rank];
  memory.arena = std::move(back.arena.mapping);
  memory.submit = std::move(back.submit.mapping);
  memory.status = std::move(back.status.mapping);
  memory.pid = session.peer.pid;
  memory.device = wish.device;
  run.members[rank].ready = true;
  OpenCommits& commits = run.commits;
  commits.made_before[rank] = wish.commits;
  commits.open_before[rank] = wish.open_commits;
  commits.next[rank] = commits.next_of(rank, 0);
  return {};
}

/// What the daemon writes: the last verdict told to all, a new board, empty pages of ranks that have
/// left.
Result<void> Server::Impl::prepare_pages(Run& run, uint32_t left) {
  std::array<shm::StatusPage*, shm::kMaxDevices> pages{};
  for (uint32_t r = 0; r < run.world; ++r) {
    if ((left & (1u << r)) == 0) pages[r] = run.memory->ranks[r].status_page();
  }
  run.memory->journal.repeat_verdict(pages);
  NPU_TRY_VOID(make_board(run));
  // For its members the run goes on from the moment they have this page, whether this daemon comes
  // to it or the next.
  auto& members = run.memory->board()->members;
  members.joined_mask.store(run.memory->all_ranks(), std::memory_order_relaxed);
  members.state.store(static_cast<uint32_t>(shm::RunState::kRunning), std::memory_order_release);
  for (uint32_t r = 0; r < run.world; ++r) {
    if ((left & (1u << r)) == 0) continue;
    NPU_TRY_VOID(make_empty_pages(run.memory->generation, run.memory->ranks[r]));
  }
  return {};
}

/// Errors: unavailable, when a page did not leave: a rank that did not get it could not show it to the
/// next daemon.
Result<void> Server::Impl::send_pages(Run& run, uint32_t left) {
  for (uint32_t r = 0; r < run.world; ++r) {
    if ((left & (1u << r)) != 0) continue;
    Session* session = find_session(run.members[r].session);
    NPU_TRY(UniqueFd board, duplicate_fd(run.board_fd.get()));
    if (session == nullptr) continue;
    auto answer = shm::make_message<shm::Reconnected>(run.adoption->requests[r]);
    answer.generation = run.memory->generation;
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(run.adoption->status_fds[r]));
    fds.push_back(std::move(board));
    reply(*session, answer, std::move(fds));
    NPU_FAILPOINT("adopt.answered");
    if (session->outgoing.empty()) continue;
    return fail(Code::kUnavailable, "rank {} (pid {}) does not read its socket", r,
                session->peer.pid);
  }
  return {};
}

/// All ranks are there: new pages for what the daemon writes, and on it goes. The engine begins
/// when every rank's new page is on its way, so that whatever it tells is found by the next daemon,
/// too.
void Server::Impl::complete_adoption(Run& run, uint32_t left) {
  NPU_FAILPOINT("adopt.all_back");
  run.memory->taken_over = true;
  if (const auto sent = prepare_pages(run, left).and_then([&] { return send_pages(run, left); });
      !sent) {
    abort_run(run, Code::kUnavailable, -1,
              fmt::format("take run '{}' over: {}", run.name, sent.error().message), true);
    return;
  }
  run.memory->journal.announced();
  run.adoption.reset();
  --adopting_;
  ++resuming_;
  run.resuming = true;
  run.state = shm::RunState::kRunning;
  run.in_engine = true;
  run.commits.any = std::ranges::any_of(run.commits.made_before, [](uint64_t n) { return n > 0; });
  engine_->add_run(run.memory);
  for (uint32_t r = 0; r < run.world; ++r) {
    if ((left & (1u << r)) == 0) continue;
    run.members[r].left = true;
    engine_->member_left(run.id, r);
  }
  log_event(Level::kWarn, "live", "run taken over from an earlier npud",
            {{"run", run.name}, {"generation", run.id}, {"world", run.world}, {"uid", run.uid}});
}

void Server::Impl::look_after_adoptions() {
  adopting_ = 0;
  std::vector<Run*> late;
  for (const auto& run : table_.runs()) {
    if (run->adoption == nullptr || run->state == shm::RunState::kAborted) continue;
    ++adopting_;
    if (run->adoption->deadline.passed()) late.push_back(run.get());
  }
  for (Run* run : late) {
    uint32_t absent = run->memory->all_ranks() & ~returned_mask(*run);
    if (run->memory->journal.valid()) absent &= ~run->memory->journal.left_mask();
    abort_run(*run, Code::kAborted, absent == 0 ? -1 : std::countr_zero(absent),
              fmt::format("rank(s) {} of run '{}' did not come back within {} s after npud was "
                          "restarted",
                          rank_list(absent), run->name, kAdoptionLimit.count()),
              true);
    --adopting_;
  }
  settle_adoptions();
}

void Server::Impl::end_resumption(Run& run) {
  if (!std::exchange(run.resuming, false)) return;
  --resuming_;
  settle_adoptions();
}

void Server::Impl::settle_adoptions() {
  if (adopting_ > 0 || resuming_ > 0) return;
  if (std::exchange(has_resumed_, false)) {
    crash_guard_.end();
  } else {
    crash_guard_.withdraw();  // refusals say nothing of what comes next
  }
}

/// Some rank has the answer already, so this one's can only be what the store says.
void Server::Impl::answer_from_store(Session& session, const shm::CheckpointCommit& commit) {
  if (commit.check_only != 0) {
    reply(session, shm::make_message<shm::CheckpointDone>(commit.header.request));
    return;
  }
  if (!begin_disk_task(session, commit.header.request)) return;
  const Run& run = *table_.find(session.run);
  checkpoints_->post([this, id = session.id, uid = static_cast<uid_t>(run.uid), name = run.name,
                      step = commit.step, memory = commit.memory != 0,
                      request = commit.header.request,
                      gone = session.gone]() -> Worker::Completion {
    using Rows = Result<std::vector<CheckpointInfo>>;
    auto rows = std::make_shared<Rows>(std::vector<CheckpointInfo>());
    if (!gone->load(std::memory_order_relaxed)) *rows = store_->list(uid, name);
    return [this, id, uid, step, memory, request, rows] {
      end_disk_task(uid, id);
      Session* target = find_session(id);
      if (target == nullptr) return;
      auto done = shm::make_message<shm::CheckpointDone>(request);
      done.step = step;
      const auto is_it = [step](const CheckpointInfo& info) {
        return info.readable && static_cast<int64_t>(info.step) == step;
      };
      if (*rows) {
        if (const auto found = std::ranges::find_if(**rows, is_it); found != (*rows)->end()) {
          done.bytes = found->bytes;
          shm::put_text(done.path, found->path);
          reply(*target, done);
          return;
        }
      }
      reply_error(*target, request,
                  Error{Code::kUnavailable,
                        fmt::format("checkpoint step {}: it was {} npud died", step,
                                    memory ? "in memory when" : "not written before"),
                        Exit::kNoDaemon});
    };
  });
}

}  // namespace npu::daemon
