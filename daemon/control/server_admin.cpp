// What ends other people's runs: docs/design/017-users.md.
#include <fmt/format.h>

#include <algorithm>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "shm/format/printable.hpp"

namespace npu::daemon {
namespace {

/// Of the sender, if it has one of that name; else the only one that there is.
Result<int64_t> whose(const std::vector<int64_t>& owners, const Session& session,
                      const std::string& run) {
  if (std::ranges::find(owners, session.peer.uid) != owners.end()) return session.peer.uid;
  if (owners.size() == 1) return owners[0];
  return fail(Code::kFailedPrecondition,
              "end run '{}': uids {} have one of that name; say whose it is", run,
              fmt::join(owners, ", "));
}

}  // namespace

Result<Server::Impl::Evictable> Server::Impl::find_evictable(const Session& session,
                                                             const shm::Evict& evict) {
  const std::string name = shm::get_text(evict.run);
  std::vector<int64_t> owners;
  bool forbidden = false;
  const auto note = [&](int64_t uid, const std::string& run) {
    if (run != name || (evict.uid >= 0 && evict.uid != uid)) return;
    if (!allowed(session.peer.rights(), Action::kEndRun, uid)) {
      forbidden = true;
    } else if (std::ranges::find(owners, uid) == owners.end()) {
      owners.push_back(uid);
    }
  };
  for (const auto& run : table_.runs()) {
    if (run->state != shm::RunState::kAborted) note(run->uid, run->name);
  }
  for (const Ticket& ticket : queue_.tickets()) note(ticket.uid, ticket.run);
  if (owners.empty()) {
    if (forbidden) {
      complain(session.peer.uid, session.peer.pid,
               fmt::format("refused a user to end run '{}' of another", name));
    }
    // As of an unknown run: the name alone would tell something.
    return fail(Code::kNotFound,
                "end run '{}': no such run of yours is going on or waits; `npu ps` lists them",
                printable(name));
  }
  Evictable found;
  NPU_TRY(found.uid, whose(owners, session, name));
  for (const auto& run : table_.runs()) {
    if (run->uid == found.uid && run->name == name && run->state != shm::RunState::kAborted) {
      found.runs.push_back(run.get());
    }
  }
  for (const Ticket& ticket : queue_.tickets()) {
    if (ticket.uid == found.uid && ticket.run == name) found.tickets.push_back(ticket.session);
  }
  return found;
}

void Server::Impl::on_evict(Session& session, const shm::Received& message) {
  const auto evict = message.as<shm::Evict>();
  const uint64_t request = evict.header.request;
  auto found = find_evictable(session, evict);
  if (!found) {
    reply_error(session, request, found.error());
    return;
  }
  const std::string name = shm::get_text(evict.run);
  const std::string reason = printable(shm::get_text(evict.reason), shm::kReasonBytes);
  const Error error{Code::kPermissionDenied,
                    fmt::format("run '{}' was ended by {} (uid {}, pid {}): {}", name,
                                session.peer.uid == found->uid ? "its user" : "an administrator",
                                session.peer.uid, session.peer.pid,
                                reason.empty() ? "no reason was given" : reason),
                    Exit::kPermission};
  log_event(Level::kInfo, "ctl", "run ended on request",
            {{"run", name}, {"uid", found->uid}, {"by_uid", session.peer.uid},
             {"by_pid", session.peer.pid}, {"reason", reason}});
  for (Run* run : found->runs) {
    shm::RunRow row = row_of(*run);
    row.header.request = request;
    abort_run(*run, error.code, -1, error.message, true);
    row.state = static_cast<uint32_t>(shm::RunState::kAborted);
    shm::put_text(row.error, error.message);
    reply(session, row);
  }
  for (const uint64_t id : found->tickets) {
    (void)queue_.leave(id);
    Session* launcher = find_session(id);
    if (launcher == nullptr) continue;
    launcher->queued = false;
    reply_error(*launcher, 0, error);
  }
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
}

void Server::Impl::on_drain(Session& session, uint64_t request) {
  if (!allowed(session.peer.rights(), Action::kAdminister, -1)) {
    complain(session.peer.uid, session.peer.pid, "refused a user to drain the daemon");
    reply_error(session, request,
                Error{Code::kPermissionDenied,
                      "drain the daemon: root and the members of its administrators' group may; "
                      "ask one of them",
                      Exit::kPermission});
    return;
  }
  log_event(Level::kInfo, "ctl", "asked to drain",
            {{"uid", session.peer.uid}, {"pid", session.peer.pid}});
  reply(session, shm::make_plain(shm::MessageType::kEnd, request));
  begin_drain();
}

}  // namespace npu::daemon
