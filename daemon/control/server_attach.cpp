// Runs: joining, forming, leaving, aborting.
#include <ctime>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"

namespace npu::daemon {
namespace {

Result<void> create_rank_segments(shm::SegmentSpec spec, uint64_t arena_bytes, shm::Segment& arena,
                                  shm::Segment& submit, shm::Segment& status) {
  spec.kind = shm::SegmentKind::kArena;
  spec.size_bytes = arena_bytes;
  NPU_TRY(arena, shm::create_segment(spec));
  spec.kind = shm::SegmentKind::kSubmit;
  spec.size_bytes = sizeof(shm::SubmitPage);
  NPU_TRY(submit, shm::create_segment(spec));
  spec.kind = shm::SegmentKind::kStatus;
  spec.size_bytes = sizeof(shm::StatusPage);
  NPU_TRY(status, shm::create_segment(spec));
  return {};
}

}  // namespace

Result<void> Server::Impl::make_journal(Run& run, uint64_t arena_bytes) {
  NPU_TRY(shm::Segment journal, Journal::create(run.memory->generation, run.world, arena_bytes));
  run.journal_fd = std::move(journal.fd);
  run.memory->journal = Journal(std::move(journal.mapping));
  return {};
}

Result<void> Server::Impl::ensure_board(Run& run, uint64_t arena_bytes) {
  if (run.board_fd.valid() && run.hints_fd.valid()) return {};
  if (run.survives) NPU_TRY_VOID(make_journal(run, arena_bytes));
  NPU_TRY(shm::Segment hints, shm::create_segment({.kind = shm::SegmentKind::kHints,
                                                   .size_bytes = sizeof(shm::RunHints),
                                                   .generation = run.memory->generation,
                                                   .world = run.world}));
  run.hints_fd = std::move(hints.fd);
  run.memory->hints_mapping = std::move(hints.mapping);
  return make_board(run);
}

Result<void> Server::Impl::make_board(Run& run) {
  NPU_TRY(shm::Segment board, shm::create_segment({.kind = shm::SegmentKind::kBoard,
                                                   .size_bytes = sizeof(shm::RunBoard),
                                                   .generation = run.memory->generation,
                                                   .world = run.world}));
  NPU_TRY(FlightRecorder recorder, FlightRecorder::create(run.memory->generation, run.world));
  run.memory->recorder = std::make_shared<FlightRecorder>(std::move(recorder));
  run.board_fd = std::move(board.fd);
  run.memory->board_mapping = std::move(board.mapping);
  run.memory->board()->members.state.store(static_cast<uint32_t>(shm::RunState::kForming),
                                           std::memory_order_release);
  return {};
}

void Server::Impl::on_attach(Session& session, const shm::Received& message) {
  const auto attach = message.as<shm::Attach>();
  const uint64_t request = attach.header.request;
  if (attach.reserved != 0 || attach.survives > 1) {
    expel(session.id, "set reserved bytes");
    return;
  }
  const bool leaving = draining_ || leaving_;
  if (session.run != 0 || session.queued || leaving) {
    reply_error(session, request,
                Error{Code::kFailedPrecondition,
                      leaving ? "attach: the daemon is shutting down"
                              : "attach: this connection holds a device already",
                      Exit::kNoDaemon});
    return;
  }
  const std::string name = shm::get_text(attach.run);
  const JoinRequest join{.run = name,
                         .key = shm::get_text(attach.key),
                         .world = attach.world,
                         .rank = attach.rank,
                         .device = attach.device,
                         .arena_bytes = attach.arena_bytes,
                         .job_hash = attach.job_hash,
                         .session = session.id,
                         .uid = session.peer.uid,
                         .pid = session.peer.pid,
                         .now_unix = std::time(nullptr),
                         .survives = attach.survives != 0,
                         .quota = quota_of(session.peer.uid),
                         .reserved_devices = reserved_devices(session.peer.uid, name)};
  auto joined = check_line(session, join).and_then([&] { return table_.join(join); });
  if (!joined) {
    reply_error(session, request, joined.error());
    return;
  }
  Run& run = **joined;
  session.run = run.id;
  session.rank = attach.rank;
  const int64_t uid = session.peer.uid;
  if (const auto room = begin_allocation(uid, attach.arena_bytes); !room) {
    reply_error(session, request, room.error());
    leave_run(session, "was refused memory");
    return;
  }
  if (const auto board = ensure_board(run, attach.arena_bytes); !board) {
    end_allocation(uid, attach.arena_bytes);
    reply_error(session, request, board.error());
    leave_run(session, "could not be given a board");
    return;
  }
  const shm::SegmentSpec spec{.generation = run.memory->generation,
                              .device = attach.device,
                              .rank = attach.rank,
                              .world = attach.world};
  segments_->post([this, spec, id = session.id, run_id = run.id, request, uid,
                   bytes = attach.arena_bytes, gone = session.gone]() -> Worker::Completion {
    auto made = std::make_shared<NewSegments>();
    made->outcome = gone->load(std::memory_order_relaxed)
                        ? fail(Code::kAborted, "attach: the connection closed")
                        : create_rank_segments(spec, bytes, made->arena, made->submit,
                                               made->status);
    return [this, id, run_id, rank = spec.rank, request, uid, bytes, made] {
      end_allocation(uid, bytes);
      on_segments(id, run_id, rank, request, std::move(*made));
    };
  });
}

void Server::Impl::on_segments(uint64_t session_id, uint64_t run_id, uint32_t rank,
                               uint64_t request, NewSegments made) {
  Session* session = find_session(session_id);
  Run* run = table_.find(run_id);
  const bool wanted = session != nullptr && session->run == run_id && run != nullptr &&
                      run->state == shm::RunState::kForming;
  if (!wanted || !made.outcome) {
    if (session != nullptr && session->run == run_id) {
      const Error error = made.outcome
                              ? Error{Code::kAborted, "attach: the run was aborted while it formed",
                                      Exit::kPeerFailed}
                              : made.outcome.error();
      reply_error(*session, request, error);
      if (run != nullptr) leave_run(*session, "could not be given memory");
    }
    // Unmapping a large arena takes a while: not on this thread.
    auto owned = std::make_shared<NewSegments>(std::move(made));
    segments_->post([owned]() mutable -> Worker::Completion {
      owned.reset();
      return {};
    });
    return;
  }
  RankMemory& memory = run->memory->ranks[rank];
  memory.arena = std::move(made.arena.mapping);
  memory.submit = std::move(made.submit.mapping);
  memory.status = std::move(made.status.mapping);
  memory.pid = session->peer.pid;
  memory.device = run->members[rank].device;
  auto board = duplicate_fd(run->board_fd.get());
  auto hints = duplicate_fd(run->hints_fd.get());
  auto journal = run->survives ? duplicate_fd(run->journal_fd.get()) : Result<UniqueFd>(UniqueFd());
  if (!board || !hints || !journal) {
    reply_error(*session, request,
                !board   ? board.error()
                : !hints ? hints.error()
                         : journal.error());
    leave_run(*session, "could not be given a board");
    return;
  }
  auto attached = shm::make_message<shm::Attached>(request);
  attached.generation = run->memory->generation;
  attached.arena_bytes = memory.arena.size();
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(made.arena.fd));
  fds.push_back(std::move(made.submit.fd));
  fds.push_back(std::move(made.status.fd));
  fds.push_back(std::move(*board));
  fds.push_back(std::move(*hints));
  if (journal->valid()) fds.push_back(std::move(*journal));
  reply(*session, attached, std::move(fds));
  run->members[rank].ready = true;
  auto& members = run->memory->board()->members;
  members.joined_mask.fetch_or(1u << rank, std::memory_order_release);
  if (!run->all_ready()) {
    ring_board(*run->memory, run->memory->all_ranks());
    return;
  }
  run->state = shm::RunState::kRunning;
  counters_.histories.complete(run->uid, run->name);
  run->in_engine = true;
  engine_->add_run(run->memory);
  log_event(Level::kInfo, "ctl", "run complete",
            {{"run", run->name}, {"generation", run->id}, {"world", run->world}, {"uid", run->uid}});
}

void Server::Impl::on_detach(Session& session, uint64_t request) {
  if (session.run != 0) {
    session.detached = true;
    leave_run(session, "detached");
  }
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
}

void Server::Impl::leave_run(Session& session, const char* how) {
  Run* run = table_.find(session.run);
  const uint32_t rank = session.rank;
  session.run = 0;
  if (run == nullptr) return;
  count_leave(*run, session, how);
  if (run->state == shm::RunState::kRunning && session.detached) {
    run->members[rank].left = true;
    if (run->survives) run->memory->journal.member_left(rank);
    engine_->member_left(run->id, rank);
  } else if (run->state != shm::RunState::kAborted) {
    abort_run(*run, Code::kAborted, static_cast<int32_t>(rank),
              fmt::format("rank {} (pid {}) {}", rank, session.peer.pid, how));
  }
  if (table_.leave(*run, rank)) release_run(*run);
}

void Server::Impl::abort_run(Run& run, Code code, int32_t culprit, const std::string& what,
                             bool complete) {
  const bool forming = run.state == shm::RunState::kForming;
  run.state = shm::RunState::kAborted;
  table_.free_devices(run);
  table_.unname(run);
  end_resumption(run);
  if (!forming) {
    // Members are told when the engine has stopped it.
    engine_->abort_run(run.id, code, culprit, what, complete);
    return;
  }
  const int64_t pid = culprit >= 0 ? run.members[static_cast<size_t>(culprit)].pid : 0;
  const char* when =
      run.adoption != nullptr ? " while npud took the run over" : " while the run was forming";
  const Error error{code, complete ? what : what + when, default_exit(code)};
  if (run.memory->board_mapping.data() != nullptr) {
    publish_abort(*run.memory, static_cast<uint8_t>(code), culprit, pid, error.message);
  }
  tell_members(run, error, culprit, pid);
}

void Server::Impl::tell_members(Run& run, const Error& error, int32_t culprit, int64_t pid) {
  run.last_error = error.message;
  ++counters_.runs_failed;
  counters_.histories.failed(run.uid, run.name);
  log_event(Level::kWarn, "live", "run aborted",
            {{"run", run.name}, {"generation", run.id}, {"uid", run.uid}, {"rank", culprit},
             {"pid", pid}, {"reason", error.message}});
  for (const Member& member : run.members) {
    if (Session* session = find_session(member.session)) {
      reply_error(*session, 0, error, culprit, pid, shm::MessageType::kAborted);
    }
  }
}

void Server::Impl::release_run(Run& run) {
  if (run.removing) return;
  run.removing = true;
  if (run.in_engine) {
    engine_->remove_run(run.id);  // on_engine_events drops the memory
    return;
  }
  segments_->post([memory = std::move(run.memory)]() mutable -> Worker::Completion {
    memory.reset();
    return {};
  });
  table_.erase(run.id);
}

void Server::Impl::on_engine_events() {
  EngineEvent event;
  while (engine_->next_event(event)) {
    Run* run = table_.find(event.run);
    if (run == nullptr) continue;
    if (event.kind == EngineEvent::Kind::kAborted) {
      run->state = shm::RunState::kAborted;
      table_.free_devices(*run);
      table_.unname(*run);
      tell_members(*run, event.error, event.culprit, event.pid);
      write_trace(*run);
      continue;
    }
    if (event.kind == EngineEvent::Kind::kResumed) {
      has_resumed_ |= run->resuming;
      end_resumption(*run);
      continue;
    }
    if (event.kind == EngineEvent::Kind::kWarning) {
      log_event(Level::kWarn, "live", "slow collective",
                {{"run", run->name}, {"generation", run->id}, {"uid", run->uid},
                 {"what", event.error.message}});
      continue;
    }
    if (run->state == shm::RunState::kRunning) ++counters_.runs_completed;
    end_resumption(*run);
    remember(*run);
    forget_kept(*run);
    segments_->post([memory = std::move(run->memory)]() mutable -> Worker::Completion {
      memory.reset();
      return {};
    });
    table_.erase(run->id);
  }
}

}  // namespace npu::daemon
