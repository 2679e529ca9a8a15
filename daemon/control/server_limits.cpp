// Who may come in, how much a client may ask for, and what happens to one that asks for more. See
// limits.hpp for the numbers.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "shm/base/units.hpp"

namespace npu::daemon {

House Server::Impl::house(const Peer& peer, int fd) const {
  House now;
  now.most_of_uid = quota_of(peer.uid)[QuotaKind::kSessions];
  now.admin = peer.admin;
  now.sessions = sessions_.size();
  for (const auto& [id, session] : sessions_) {
    if (session->peer.uid != peer.uid) continue;
    ++now.of_uid;
    now.half_open_of_uid += session->greeted ? 0 : 1;
  }
  now.fd = fd;
  rlimit limit{};
  // Asked each time: an administrator may change it while we run.
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    now.fd_limit = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  }
  return now;
}

void Server::Impl::refuse(UniqueFd socket, const Peer* peer, const Error& error) {
  auto message = shm::make_message<shm::ErrorReply>(0);
  message.code = static_cast<uint8_t>(error.code);
  message.exit = static_cast<uint8_t>(error.exit);
  message.culprit = -1;
  shm::put_text(message.text, error.message);
  (void)shm::send_message(socket.get(), message);  // closed in any case
  complain(peer != nullptr ? peer->uid : -1, peer != nullptr ? peer->pid : 0,
           "refused a connection: " + error.message);
}

Result<void> Server::Impl::take_reserve() {
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!reserve_.valid()) return fail_errno("keep a descriptor in reserve");
  return {};
}

void Server::Impl::shed_connection() {
  reserve_.reset();
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) {
    refuse(std::move(fd), nullptr,
           Error{Code::kResourceExhausted,
                 "connect: the daemon has no descriptor left; try again later, or raise LimitNOFILE",
                 Exit::kBusy});
  }
  if (take_reserve()) return;
  // The listener stays readable: without a pause the loop would spin on it.
  listener_paused_ = true;
  loop_.watch(listener_.get(), false, false);
}

void Server::Impl::complain(int64_t uid, int64_t pid, std::string_view what) {
  log_event(Level::kWarn, "ctl", "complaint", {{"what", what}, {"uid", uid}, {"pid", pid}});
}

void Server::Impl::expel(uint64_t id, const char* why) {
  Session* session = find_session(id);
  if (session == nullptr) return;
  complain(session->peer.uid, session->peer.pid,
           fmt::format("ended a connection that {}{}", why,
                       session->run != 0 ? fmt::format(" run={} rank={}", session->run, session->rank)
                                         : ""));
  if (session->outgoing.empty()) {
    // Best effort: a broken program finds out what is wrong with it.
    reply_error(*session, 0,
                Error{Code::kInvalidArgument,
                      fmt::format("the daemon ended this connection: it {}", why), Exit::kInternal});
  }
  end_session(id, why);
}

void Server::Impl::cut(Session& session, const char* why) {
  session.outgoing.clear();
  session.outgoing_fds = 0;
  if (session.broken == nullptr) {
    session.broken = why;
    (void)::shutdown(session.socket.get(), SHUT_RDWR);
  }
}

void Server::Impl::watch(const Session& session) {
  loop_.watch(session.socket.get(), !session.slowed, !session.outgoing.empty());
}

void Server::Impl::slow(Session& session) {
  session.slowed = true;
  ++slowed_;
  watch(session);
  const uint64_t of_user = quota_of(session.peer.uid)[QuotaKind::kMessages];
  const bool alone = session.messages.available(Clock::now()) < 1;
  complain(session.peer.uid, session.peer.pid,
           alone ? fmt::format("slowed a client down: it sent more than {} messages a second",
                               kMessagesPerSecond)
                 : fmt::format("slowed a client down: its user sent more than {} messages a second "
                               "({})",
                               of_user, quota_key(QuotaKind::kMessages)));
}

double Server::Impl::messages_left(Session& session) {
  const auto now = Clock::now();
  const double own = session.messages.available(now);
  const auto rate = static_cast<double>(quota_of(session.peer.uid)[QuotaKind::kMessages]);
  if (rate == 0) return own;
  auto& bucket = in_work_[session.peer.uid].messages;
  if (!bucket) bucket.emplace(rate, std::max(2 * rate, kLeastUserBurst), now);
  return std::min(own, bucket->available(now));
}

void Server::Impl::take_message(Session& session) {
  const auto now = Clock::now();
  (void)session.messages.take(now);
  if (auto& bucket = in_work_[session.peer.uid].messages) (void)bucket->take(now);
}

void Server::Impl::forget_idle_users() {
  const auto now = Clock::now();
  for (auto at = in_work_.begin(); at != in_work_.end();) {
    InWork& work = at->second;
    // A full bucket is as good as a new one.
    const bool idle = work.disk_tasks == 0 && work.allocations == 0 && work.staged_bytes == 0 &&
                      (!work.messages || work.messages->full(now));
    at = idle ? in_work_.erase(at) : std::next(at);
  }
}

void Server::Impl::use_quotas(std::shared_ptr<const Quotas> quotas) {
  options.quotas = std::move(quotas);
  for (auto& [uid, work] : in_work_) work.messages.reset();
}

Result<void> Server::Impl::begin_staged(int64_t uid, const Snapshot& snapshot) {
  InWork& work = in_work_[uid];
  const uint64_t bytes = snapshot.tensor_bytes();
  NPU_TRY_VOID(check_quota(quota_of(uid), {QuotaKind::kStaged, bytes, work.staged_bytes}, uid,
                           fmt::format("checkpoint step {} of run '{}'", snapshot.step, snapshot.run)));
  work.staged_bytes += bytes;
  return {};
}

bool Server::Impl::begin_disk_task(Session& session, uint64_t request) {
  InWork& work = in_work_[session.peer.uid];
  const bool of_session = session.disk_tasks >= kMaxDiskTasksOfSession;
  if (draining_) {
    reply_error(session, request,
                Error{Code::kUnavailable, "checkpoints: the daemon is shutting down",
                      Exit::kNoDaemon});
    return false;
  }
  if (of_session || work.disk_tasks >= kMaxDiskTasksOfUid) {
    reply_error(session, request,
                Error{Code::kResourceExhausted,
                      fmt::format("checkpoints: 1 more request is wanted, {} of {} are in progress, "
                                  "the limit is {}; wait for an answer",
                                  of_session ? session.disk_tasks : work.disk_tasks,
                                  of_session ? std::string("this connection")
                                             : fmt::format("uid {}", session.peer.uid),
                                  of_session ? kMaxDiskTasksOfSession : kMaxDiskTasksOfUid),
                      Exit::kBusy});
    return false;
  }
  ++session.disk_tasks;
  ++work.disk_tasks;
  return true;
}

void Server::Impl::end_disk_task(int64_t uid, uint64_t session) {
  --in_work_[uid].disk_tasks;
  if (Session* found = find_session(session)) --found->disk_tasks;
}

Result<void> Server::Impl::begin_allocation(int64_t uid, uint64_t bytes) {
  InWork& work = in_work_[uid];
  if (work.allocations >= kMaxAllocationsOfUid) {
    return fail_exit(Code::kResourceExhausted, Exit::kBusy,
                     "attach: {} are wanted, {} allocations of uid {} are in progress, the limit is "
                     "{}; try again",
                     format_bytes(bytes), work.allocations, uid, kMaxAllocationsOfUid);
  }
  if (auto room = memory_budget_.check(bytes, promised_bytes_); !room) {
    room.error().message = "attach: " + room.error().message;
    return room;
  }
  ++work.allocations;
  promised_bytes_ += bytes;
  return {};
}

void Server::Impl::end_allocation(int64_t uid, uint64_t bytes) {
  --in_work_[uid].allocations;
  promised_bytes_ -= bytes;
}

}  // namespace npu::daemon
