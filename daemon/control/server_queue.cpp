// Launches that wait for devices: docs/design/017-users.md.
#include <algorithm>
#include <bit>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "shm/base/rank_list.hpp"

namespace npu::daemon {
namespace {

std::string device_text(uint32_t mask) {
  return fmt::format("device{} {}", std::popcount(mask) == 1 ? "" : "s", rank_list(mask));
}

/// What somebody may know of whose run it is.
std::string run_text(const Rights& who, int64_t uid, const std::string& run) {
  if (uid == who.uid) return fmt::format("your run '{}'", run);
  if (!allowed(who, Action::kReadStatus, uid)) return "another user";
  return fmt::format("run '{}' of uid {}", run, uid);
}

}  // namespace

std::string Server::Impl::holders(uint32_t devices, const Rights& who) const {
  std::vector<std::pair<std::string, uint32_t>> groups;
  for (uint32_t d = 0; d < options.devices; ++d) {
    if (((devices >> d) & 1U) == 0) continue;
    const Lease& lease = table_.leases()[d];
    const Ticket* ticket = queue_.holder(d);
    std::string text;
    if (lease.run != nullptr) {
      text = run_text(who, lease.uid, lease.run->name);
    } else if (ticket != nullptr) {
      text = run_text(who, ticket->uid, ticket->run);
    } else {
      continue;
    }
    const auto found = std::ranges::find(groups, text, &std::pair<std::string, uint32_t>::first);
    if (found == groups.end()) {
      groups.emplace_back(text, 1U << d);
    } else {
      found->second |= 1U << d;
    }
  }
  std::string all;
  for (const auto& [text, mask] : groups) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", device_text(mask), text);
  }
  return all;
}

std::string Server::Impl::why_waiting(const Ticket& ticket) const {
  const auto owner = Rights{.uid = ticket.uid, .admin = false};
  if (ticket.passed_over) {
    return name_taken(ticket)
               ? fmt::format("your run '{}' is going on", ticket.run)
               : fmt::format("your runs use up your quota of {} devices ({} of npud)",
                             quota_of(ticket.uid)[QuotaKind::kDevices],
                             quota_key(QuotaKind::kDevices));
  }
  std::string text = holders(ticket.devices, owner);
  if (const uint32_t n = queue_.before(ticket); n != 0) {
    text += fmt::format("{}{} launch{} came before and wait{} for some of them, too",
                        text.empty() ? "" : "; ", n, n == 1 ? "" : "es", n == 1 ? "s" : "");
  }
  return text;
}

uint64_t Server::Impl::reserved_devices(int64_t uid, const std::string& except) const {
  uint64_t count = 0;
  for (const Ticket& ticket : queue_.tickets()) {
    const bool counts = ticket.granted && ticket.uid == uid && ticket.run != except &&
                        table_.find_named(uid, ticket.run) == nullptr;
    count += counts ? static_cast<uint64_t>(std::popcount(ticket.devices)) : 0;
  }
  return count;
}

bool Server::Impl::name_taken(const Ticket& ticket) const {
  // Also while the first one's ranks are on their way.
  return table_.find_named(ticket.uid, ticket.run) != nullptr ||
         std::ranges::any_of(queue_.tickets(), [&ticket](const Ticket& other) {
           return other.granted && other.uid == ticket.uid && other.run == ticket.run;
         });
}

bool Server::Impl::may_have(const Ticket& ticket) const {
  const auto wanted = static_cast<uint64_t>(std::popcount(ticket.devices));
  const uint64_t used = table_.use_of(ticket.uid).devices + reserved_devices(ticket.uid, "");
  return !name_taken(ticket) &&
         check_quota(quota_of(ticket.uid), {QuotaKind::kDevices, wanted, used}, ticket.uid, "")
             .has_value();
}

Result<void> Server::Impl::check_line(const Session& session, const JoinRequest& join) const {
  if (join.device >= options.devices) return {};  // RunTable::join says so
  const Run* run = table_.find_named(join.uid, join.run);
  const bool forming = run != nullptr && run->state == shm::RunState::kForming;
  const Ticket* other = queue_.in_the_way(join.device, join.uid, join.run, forming);
  if (other == nullptr) return {};
  return fail_exit(Code::kUnavailable, Exit::kBusy,
                   "attach device {}: it is {} a launch that came before, of {}; wait in line with "
                   "`npu launch --wait`, `npu ps` shows who does",
                   join.device, other->granted ? "kept for" : "waited for by",
                   run_text(session.peer.rights(), other->uid, other->run));
}

void Server::Impl::on_queue_join(Session& session, const shm::Received& message) {
  const auto join = message.as<shm::QueueJoin>();
  const uint64_t request = join.header.request;
  if (join.reserved != 0) {
    expel(session.id, "set reserved bytes");
    return;
  }
  const std::string run = shm::get_text(join.run);
  const uint32_t all = (1U << options.devices) - 1;
  const int64_t uid = session.peer.uid;
  Result<void> good;
  if (draining_ || leaving_ || session.run != 0 || session.queued) {
    good = fail_exit(Code::kFailedPrecondition, Exit::kNoDaemon, "wait for devices: {}",
                     draining_ || leaving_ ? "the daemon is shutting down"
                                           : "this connection waits or holds a device already");
  } else if (!shm::valid_run_name(run)) {
    good = fail(Code::kInvalidArgument,
                "wait for devices: the run name must be 1 to 64 of a-z 0-9 . _ -, and not '.' or "
                "'..'");
  } else if (join.devices == 0 || (join.devices & ~all) != 0) {
    good = fail(Code::kInvalidArgument, "wait for {}: this daemon has devices 0 to {}",
                join.devices == 0 ? "no device" : device_text(join.devices), options.devices - 1);
  } else {
    const auto wanted = static_cast<uint64_t>(std::popcount(join.devices));
    good = check_quota(quota_of(uid), {QuotaKind::kDevices, wanted, 0}, uid,
                       "wait for " + device_text(join.devices));
  }
  if (!good) {
    reply_error(session, request, good.error());
    return;
  }
  session.queued = true;
  queue_.join({.session = session.id,
               .request = request,
               .uid = uid,
               .pid = session.peer.pid,
               .run = run,
               .devices = join.devices,
               .told = {}});
  serve_queue();
}

void Server::Impl::serve_queue() {
  if (queue_.waiting() == 0 || draining_) return;
  const auto granted = queue_.grant(table_.busy_devices(),
                                    [this](const Ticket& ticket) { return may_have(ticket); });
  for (Ticket* ticket : granted) {
    log_event(Level::kInfo, "ctl", "devices given to a launch",
              {{"run", ticket->run}, {"devices", rank_list(ticket->devices)}, {"uid", ticket->uid},
               {"pid", ticket->pid}});
    if (Session* session = find_session(ticket->session)) {
      reply(*session, shm::make_plain(shm::MessageType::kQueueGranted, ticket->request));
    }
  }
  for (Ticket& ticket : queue_.tickets()) {
    if (ticket.granted) continue;
    auto place = shm::make_message<shm::QueuePlace>(ticket.request);
    place.place = queue_.place(ticket);
    const std::string text = why_waiting(ticket);
    const std::string told = fmt::format("{} {}", place.place, text);
    if (told == ticket.told) continue;
    ticket.told = told;
    shm::put_text(place.text, text);
    if (Session* session = find_session(ticket.session)) reply(*session, place);
  }
}

int64_t Server::Impl::launcher_of(const Run& run) const {
  const auto found = std::ranges::find_if(queue_.tickets(), [&run](const Ticket& ticket) {
    return ticket.granted && ticket.uid == run.uid && ticket.run == run.name;
  });
  return found == queue_.tickets().end() ? 0 : found->pid;
}

void Server::Impl::dismiss_queue() {
  for (const Ticket& ticket : queue_.tickets()) {
    Session* session = find_session(ticket.session);
    if (ticket.granted || session == nullptr) continue;
    reply_error(*session, ticket.request,
                Error{Code::kUnavailable, "wait for devices: the daemon is shutting down",
                      Exit::kNoDaemon});
  }
}

void Server::Impl::send_pending(Session& session, uint64_t request) {
  for (const Ticket& ticket : queue_.tickets()) {
    const bool has_run = ticket.granted && table_.find_named(ticket.uid, ticket.run) != nullptr;
    if (has_run || !may_see(session, ticket.uid)) continue;
    auto row = shm::make_message<shm::RunRow>(request);
    row.uid = ticket.uid;
    row.world = static_cast<uint32_t>(std::popcount(ticket.devices));
    row.state = static_cast<uint32_t>(shm::RunState::kPending);
    row.launcher = ticket.pid;
    row.place = queue_.place(ticket);
    uint32_t rank = 0;
    for (uint32_t d = 0; d < options.devices; ++d) {
      if (((ticket.devices >> d) & 1U) != 0) row.devices[rank++] = d;
    }
    shm::put_text(row.run, ticket.run);
    shm::put_text(row.error, ticket.granted ? "has its devices, its ranks have not come yet"
                                            : why_waiting(ticket));
    reply(session, row);
  }
}

}  // namespace npu::daemon
