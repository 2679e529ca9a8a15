#include "daemon/control/server.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "daemon/control/server_impl.hpp"
#include "daemon/log.hpp"
#include "daemon/version.hpp"
#include "shm/base/failpoint.hpp"
#include "shm/format/printable.hpp"
#include "shm/paths.hpp"

namespace npu::daemon {
namespace {

constexpr auto kCloseGrace = milliseconds(50);
constexpr auto kGreetLimit = std::chrono::seconds(2);
/// How long after its start a daemon takes runs over. Whoever comes later was not waiting for it.
constexpr auto kReturnWindow = std::chrono::minutes(2);
constexpr int kMessagesPerRound = 16;
/// Magic, protocol and layout: what every version of Hello begins with.
constexpr size_t kHelloPrefix = offsetof(shm::Hello, build);
static_assert(kHelloPrefix == 40);

/// The directory must be ours: in /tmp anybody could have made it first.
Result<void> prepare_dir(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) {
    return fail_errno("create the runtime directory '" + path + "'");
  }
  if (!S_ISDIR(st.st_mode) || st.st_uid != ::geteuid()) {
    return fail_exit(
        Code::kPermissionDenied, Exit::kPermission,
        "use '{}' as runtime directory: it belongs to uid {}, not to uid {}; pass --runtime-dir",
        path, st.st_uid, ::geteuid());
  }
  return {};
}

Result<UniqueFd> lock_instance(const std::string& dir) {
  const std::string path = dir + "/npud.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return fail_errno("open '" + path + "'");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail_exit(Code::kAlreadyExists, Exit::kBusy,
                     "start npud: another one runs in '{}'; use it, or pass another --runtime-dir",
                     dir);
  }
  return fd;  // never unlinked: removing a lock file races with the next owner
}

Result<UniqueFd> signal_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return fail_errno("create the signal descriptor");
  return fd;
}

}  // namespace

Server::Impl::Impl(ServerOptions opts, EventLoop loop)
    : options(std::move(opts)),
      loop_(std::move(loop)),
      service_(options.service),
      table_(options.devices, options.device_memory_bytes),
      kept_({.bytes_of_uid = options.device_memory_bytes}),
      start_unix_(unix_seconds()) {
  counters_.config_unix = start_unix_;
}

Result<void> Server::Impl::open(Listener listener) {
  NPU_TRY_VOID(prepare_dir(options.runtime_dir));
  NPU_TRY(lock_, lock_instance(options.runtime_dir));
  NPU_TRY(auto store, CheckpointStore::open(options.state_dir));
  // Better at the start than after the first epoch of a job.
  if (::access(options.state_dir.c_str(), W_OK) != 0) {
    return fail_errno("write to the state directory '" + options.state_dir +
                      "' (choose another with --state-dir)");
  }
  store_.emplace(std::move(store));
  NPU_TRY(const SweepReport swept, store_->sweep());
  if (swept.removed + swept.restored > 0) {
    log_event(Level::kInfo, "ckpt", "swept unfinished checkpoints",
              {{"removed", swept.removed}, {"restored", swept.restored}});
  }
  NPU_TRY(engine_, Engine::start({.threads = options.engine_threads, .counters = &engine_counters_}));
  log_event(Level::kInfo, "eng", "calibrated all-reduce costs",
            {{"threads", engine_->threads()}, {"model", engine_->costs().text()}});
  NPU_TRY(segments_, Worker::start("npud-segments"));
  NPU_TRY(checkpoints_, Worker::start("npud-ckpt", Worker::Priority::kRanks));
  NPU_TRY(signals_, signal_descriptor());
  NPU_TRY_VOID(take_reserve());
  crash_guard_ = CrashGuard(options.runtime_dir);
  return_window_ = Deadline::after(kReturnWindow);
  if (!crash_guard_.allowed()) {
    log_event(Level::kError, "ctl", "runs of an earlier npud are not taken over: it died in the attempt",
              {{"deaths", crash_guard_.deaths()}});
  }
  launcher_ = ::getppid();
  NPU_TRY_VOID(listen(std::move(listener)));
  NPU_TRY_VOID(watch_all());
  service_.ready(scene(), engine_->pulses());
  return {};
}

Result<void> Server::Impl::listen(Listener listener) {
  own_listener_ = !listener.socket.valid();
  socket_path = own_listener_ ? options.runtime_dir + "/" + shm::kSocketName : listener.path;
  if (!own_listener_) {
    listener_ = std::move(listener.socket);
    return {};
  }
  NPU_TRY(listener_, shm::listen_at(socket_path, 0660));
  return {};
}

Result<void> Server::Impl::watch_all() {
  NPU_TRY_VOID(loop_.add(listener_.get(), [this](uint32_t) { accept_clients(); }));
  NPU_TRY_VOID(loop_.add(engine_->event_fd(), [this](uint32_t) { on_engine_events(); }));
  NPU_TRY_VOID(
      loop_.add(segments_->event_fd(), [this](uint32_t) { segments_->run_completions(); }));
  NPU_TRY_VOID(
      loop_.add(checkpoints_->event_fd(), [this](uint32_t) { checkpoints_->run_completions(); }));
  return loop_.add(signals_.get(), [this](uint32_t) {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      on_signal(info.ssi_signo, info.ssi_pid, info.ssi_uid);
    }
  });
}

void Server::Impl::run() {
  while (!draining_ || !drained()) {
    const bool soon = draining_ || leaving_ || closing_ > 0 || slowed_ > 0 || listener_paused_;
    loop_.run_once(service_.patience(milliseconds(soon ? 20 : 1000)));
    look_after_sessions();
    look_after_kept();
    if (adopting_ > 0) look_after_adoptions();
    if (leaving_ && ::getppid() != launcher_) begin_drain();
    if (draining_ && Clock::now() >= drain_deadline_) hurry_drain();
    service_.look_after(scene());
  }
  crash_guard_.end();  // an end in good order is no death
  if (own_listener_) (void)::unlink(socket_path.c_str());
  log_event(Level::kInfo, "ctl", "stopped");
}

Session* Server::Impl::find_session(uint64_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Server::Impl::accept_clients() {
  for (int i = 0; i < kMessagesPerRound; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE) shed_connection();
      return;
    }
    NPU_FAILPOINT("ctl.after_accept");
    auto peer = identify_peer(fd.get(), options.admin_group);
    if (!peer) {
      if (peer.error().code != Code::kUnavailable) refuse(std::move(fd), nullptr, peer.error());
      continue;
    }
    if (const auto admitted = admit(peer->uid, house(*peer, fd.get())); !admitted) {
      refuse(std::move(fd), &*peer, admitted.error());
      continue;
    }
    begin_session(std::move(fd), std::move(*peer));
  }
}

void Server::Impl::begin_session(UniqueFd socket, Peer peer) {
  auto session = std::make_unique<Session>();
  const uint64_t id = next_session_++;
  session->id = id;
  session->socket = std::move(socket);
  session->peer = std::move(peer);
  session->greet_deadline = Deadline::after(kGreetLimit);
  const int fd = session->socket.get();
  const int pidfd = session->peer.pidfd.get();
  sessions_[id] = std::move(session);
  auto on_socket = loop_.add(fd, [this, id](uint32_t events) { on_readable(id, events); });
  auto on_death = loop_.add(pidfd, [this, id](uint32_t) { end_session(id, "died"); });
  if (!on_socket || !on_death) end_session(id, "could not be watched");
}

void Server::Impl::look_after_sessions() {
  std::vector<std::pair<uint64_t, const char*>> late;
  closing_ = slowed_ = 0;
  for (const auto& [id, session] : sessions_) {
    if (!session->greeted && session->greet_deadline.passed())
      late.emplace_back(id, "did not say hello");
    if (session->close_deadline.passed()) late.emplace_back(id, "closed its connection");
    closing_ += session->close_deadline.is_never() ? 0 : 1;
    if (session->slowed && messages_left(*session) >= kMessagesPerRound) {
      session->slowed = false;
      watch(*session);
    }
    slowed_ += session->slowed ? 1 : 0;
  }
  for (const auto& [id, how] : late) end_session(id, how);
  forget_idle_users();
  serve_queue();
  if (listener_paused_ && !draining_ && take_reserve()) {
    listener_paused_ = false;
    loop_.watch(listener_.get(), true, false);
  }
}

void Server::Impl::on_closed(Session& session) {
  if (session.broken != nullptr) {
    expel(session.id, session.broken);
    return;
  }
  if (session.run == 0) {
    end_session(session.id, "closed its connection");
    return;
  }
  loop_.remove(session.socket.get());
  session.close_deadline = Deadline::after(kCloseGrace);
  ++closing_;
}

void Server::Impl::on_readable(uint64_t id, uint32_t events) {
  if (Session* session = find_session(id); session != nullptr) {
    if ((events & EPOLLOUT) != 0) flush(*session);
    const bool hung_up = (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (session->broken != nullptr || (session->slowed && hung_up)) on_closed(*session);
    session = find_session(id);
    if (session == nullptr || session->slowed || session->broken != nullptr) return;
  }
  shm::Received message;
  for (int i = 0; i < kMessagesPerRound; ++i) {
    Session* session = find_session(id);  // a handler may have ended it
    if (session == nullptr) return;
    // A greeting is let in, or a user that floods could not even look why.
    if (session->greeted && messages_left(*session) < 1) {
      slow(*session);
      return;
    }
    switch (shm::receive(session->socket.get(), message)) {
      case shm::ReceiveStatus::kEmpty:
        return;
      case shm::ReceiveStatus::kClosed:
        on_closed(*session);
        return;
      case shm::ReceiveStatus::kBroken:
        expel(id, "sent a malformed message");
        return;
      case shm::ReceiveStatus::kMessage:
        break;
    }
    take_message(*session);
    if (!message.fds.empty() && !(session->greeted && message.is<shm::Reconnect>())) {
      expel(id, "sent unexpected descriptors");
      return;
    }
    if (session->outgoing.size() >= kMaxUnread) {
      expel(id, "does not read its answers");
      return;
    }
    on_message(*session, message);
  }
}

void Server::Impl::on_message(Session& session, const shm::Received& message) {
  if (!session.greeted) {
    on_hello(session, message);
    return;
  }
  const uint64_t request = message.header().request;
  const bool plain = message.size == sizeof(shm::Plain);
  counters_.requests.begin(session.id, request, method_of(message.header().type), now_ns());
  if (message.is<shm::Attach>()) {
    on_attach(session, message);
  } else if (message.is<shm::Reconnect>()) {
    on_reconnect(session, message);
  } else if (message.is<shm::CheckpointCommit>()) {
    on_commit(session, message);
  } else if (message.is<shm::CheckpointList>()) {
    on_list(session, message);
  } else if (message.is<shm::CheckpointOpen>()) {
    on_open(session, message);
  } else if (message.type() == shm::MessageType::kInfo && plain) {
    on_info(session, request);
  } else if (message.type() == shm::MessageType::kPs && plain) {
    on_ps(session, request);
  } else if (message.type() == shm::MessageType::kMetrics && plain) {
    on_metrics(session, request);
  } else if (message.is<shm::TraceOpen>()) {
    on_trace_open(session, message);
  } else if (message.is<shm::QueueJoin>()) {
    on_queue_join(session, message);
  } else if (message.is<shm::Evict>()) {
    on_evict(session, message);
  } else if (message.type() == shm::MessageType::kDrain && plain) {
    on_drain(session, request);
  } else if (message.type() == shm::MessageType::kDetach && plain) {
    on_detach(session, request);
  } else {
    expel(session.id, "sent a message of unknown type or size");
  }
}

void Server::Impl::on_hello(Session& session, const shm::Received& message) {
  counters_.requests.begin(session.id, message.header().request, Method::kHello, now_ns());
  // The beginning is the same in every version, so that another one can be named.
  const bool begins = message.type() == shm::MessageType::kHello && message.size >= kHelloPrefix;
  shm::Hello hello{};
  if (begins) std::memcpy(&hello, message.bytes.data(), std::min(message.size, sizeof(hello)));
  if (hello.magic != shm::kHelloMagic) {
    expel(session.id, "did not say hello");
    return;
  }
  if (hello.protocol_major != shm::kProtocolMajor || hello.layout_hash != shm::layout_hash() ||
      !message.is<shm::Hello>()) {
    const Error error{
        Code::kFailedPrecondition,
        fmt::format(
            "connect: this client (build '{}') speaks protocol {}.{} layout {:016x}, the daemon "
            "(build '{}') accepts {}.{} layout {:016x}{}; install the same version of npu and npud",
            printable(shm::get_text(hello.build)), hello.protocol_major, hello.protocol_minor,
            hello.layout_hash, kVersion, shm::kProtocolMajor, shm::kProtocolMinor,
            shm::layout_hash(),
            message.is<shm::Hello>() ? ""
                                     : fmt::format(" and a greeting of {} bytes, not {}",
                                                   sizeof(shm::Hello), message.size)),
        Exit::kNoDaemon};
    reply_error(session, hello.header.request, error);
    end_session(session.id, "speaks another protocol");
    return;
  }
  session.greeted = true;
  auto welcome = shm::make_message<shm::Welcome>(hello.header.request);
  welcome.session = session.id;
  welcome.daemon_pid = ::getpid();
  welcome.devices = options.devices;
  welcome.engine_threads = engine_->threads();
  welcome.device_memory_bytes = options.device_memory_bytes;
  shm::put_text(welcome.build, kVersion);
  reply(session, welcome);
}

void Server::Impl::reply_error(Session& session, uint64_t request, const Error& error,
                               int32_t culprit, int64_t pid, shm::MessageType type) {
  auto message = shm::make_message<shm::ErrorReply>(request);
  message.header.type = static_cast<uint32_t>(type);
  message.code = static_cast<uint8_t>(error.code);
  message.exit = static_cast<uint8_t>(error.exit);
  message.culprit = culprit;
  message.pid = pid;
  shm::put_text(message.text, error.message);
  reply(session, message);
}

void Server::Impl::enqueue(Session& session, Outgoing outgoing) {
  counters_.requests.answered(session.id, outgoing.bytes, now_ns());
  if (session.broken != nullptr) return;
  session.outgoing_fds += outgoing.fds.size();
  session.outgoing.push_back(std::move(outgoing));
  flush(session);
  if (session.outgoing.size() > kMaxOutgoing || session.outgoing_fds > kMaxUnreadFds) {
    cut(session, "does not read its answers");
  }
}

void Server::Impl::flush(Session& session) {
  while (!session.outgoing.empty()) {
    const Outgoing& next = session.outgoing.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : next.fds) fds.push_back(fd.get());
    const auto sent = shm::send(session.socket.get(), next.bytes.data(), next.bytes.size(), fds);
    if (!sent && sent.error().code == Code::kResourceExhausted) break;
    if (!sent) {
      // Gone: its pidfd or EOF ends the session.
      session.outgoing.clear();
      session.outgoing_fds = 0;
      (void)::shutdown(session.socket.get(), SHUT_RDWR);
      return;
    }
    session.outgoing_fds -= next.fds.size();
    session.outgoing.pop_front();
  }
  watch(session);
}

void Server::Impl::end_session(uint64_t id, const char* how) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
  session->gone->store(true, std::memory_order_relaxed);
  counters_.requests.forget(id);
  loop_.remove(session->socket.get());
  loop_.remove(session->peer.pidfd.get());
  if (session->run != 0) leave_run(*session, how);
  if (session->queued) (void)queue_.leave(id);
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Listener listener) {
  NPU_TRY(EventLoop loop, EventLoop::create());
  auto impl = std::make_unique<Impl>(options, std::move(loop));
  NPU_TRY_VOID(impl->open(std::move(listener)));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

void Server::run() { impl_->run(); }
void Server::use_quotas(std::shared_ptr<const Quotas> quotas) {
  impl_->use_quotas(std::move(quotas));
}
const std::string& Server::socket_path() const noexcept { return impl_->socket_path; }

}  // namespace npu::daemon
