// A daemon that died and comes back: the rank's reader looks for it, hands it the memory that the
// ranks kept, and puts its new pages where the old ones were. Calls that wait go on waiting
// meanwhile. docs/design/019-daemon-restart.md.
#include <poll.h>

#include <algorithm>

#include "client/api/device_impl.hpp"
#include "shm/base/failpoint.hpp"

namespace npu::client {
namespace {

constexpr milliseconds kLookEvery{100};

Error gave_up(const std::string& socket, const std::string& why) {
  Error error = daemon_lost(socket);
  error.message += "; " + why;
  return error;
}

/// A child that is forked meanwhile closes it: orphan().
class Sought {
 public:
  Sought(std::atomic<int>& where, int fd) noexcept : where_(where) { where_.store(fd); }
  ~Sought() { where_.store(-1); }
  Sought(const Sought&) = delete;
  Sought& operator=(const Sought&) = delete;

 private:
  std::atomic<int>& where_;
};

}  // namespace

/// Waits, and tells whether the device is being destroyed.
bool Device::Impl::stopping(milliseconds wait) const noexcept {
  pollfd stop{stop_event.get(), POLLIN, 0};
  return ::poll(&stop, 1, static_cast<int>(wait.count())) > 0;
}

bool Device::Impl::may_reconnect() {
  const auto state =
      static_cast<shm::RunState>(board().members.state.load(std::memory_order_acquire));
  const std::lock_guard lock(mutex);
  return !kept.empty() && state == shm::RunState::kRunning && !left && !error;
}

shm::Reconnect Device::Impl::reconnect_message(uint64_t request) {
  auto message = shm::make_message<shm::Reconnect>(request);
  message.generation = generation;
  message.arena_bytes = arena_map.size();
  message.job_hash = options.job_hash;
  message.world = options.world;
  message.rank = options.rank;
  message.device = options.device;
  shm::put_text(message.run, options.run);
  shm::put_text(message.key, options.run_key);
  const std::lock_guard lock(mutex);
  message.commits = commits_made;
  for (const auto& [id, open] : commits) {
    const uint64_t bit = commits_made - 1 - open.message.index;
    if (bit < 64) message.open_commits |= uint64_t{1} << bit;
  }
  return message;
}

/// One attempt. Nothing: no daemon yet. Errors: the new daemon does not take the run.
Result<std::optional<Connection>> Device::Impl::come_back(Deadline deadline) {
  const auto not_yet = [](const Error& why) {
    return why.code == Code::kDeadlineExceeded ||
           (why.code == Code::kUnavailable && why.exit == Exit::kNoDaemon);
  };
  const auto refused = [&](const Error& why) {
    return tl::unexpected(
        gave_up(options.socket, "the one that came back refused the run: " + why.message));
  };
  const auto patience = deadline.remaining(std::chrono::seconds(5));
  auto fresh = Connection::open(options.socket, std::chrono::ceil<milliseconds>(patience));
  if (!fresh && not_yet(fresh.error())) return std::optional<Connection>();
  if (!fresh) return refused(fresh.error());
  const Sought known(sought, fresh->fd());
  std::vector<int> fds;
  for (const UniqueFd& fd : kept) fds.push_back(fd.get());
  const shm::Reconnect message = reconnect_message(fresh->next_request());
  if (!shm::send_message(fresh->fd(), message, fds)) return std::optional<Connection>();
  while (!deadline.passed() && !stopping(milliseconds(0))) {
    if (!shm::wait_readable(fresh->fd(), Deadline::after(kLookEvery))) continue;
    shm::Received answer;
    const auto status = shm::receive(fresh->fd(), answer);
    if (status == shm::ReceiveStatus::kEmpty) continue;
    // It died in turn.
    if (status != shm::ReceiveStatus::kMessage) return std::optional<Connection>();
    if (answer.size == sizeof(shm::ErrorReply)) {
      return refused(to_error(answer.as<shm::ErrorReply>()));
    }
    if (auto taken = take_pages(answer); !taken) return refused(taken.error());
    return std::optional<Connection>(std::move(*fresh));
  }
  return std::optional<Connection>();
}

Result<void> Device::Impl::take_pages(const shm::Received& answer) {
  if (!answer.is<shm::Reconnected>() || answer.fds.size() != 2) {
    return fail(Code::kUnavailable, "it answered with message type {} and {} descriptors",
                answer.header().type, answer.fds.size());
  }
  shm::SegmentSpec spec{.kind = shm::SegmentKind::kStatus,
                        .size_bytes = sizeof(shm::StatusPage),
                        .generation = generation,
                        .rank = options.rank};
  NPU_TRY(UniqueFd status, duplicate_fd(answer.fds[0].get()));
  NPU_TRY_VOID(shm::replace_received(status_map, status.get(), spec));
  // From here on this page is what a next daemon has to see: the one that sent it may have begun.
  kept[2] = std::move(status);
  NPU_FAILPOINT("reconnect.between_pages");
  spec.kind = shm::SegmentKind::kBoard;
  spec.size_bytes = sizeof(shm::RunBoard);
  spec.rank = 0;
  return shm::replace_received(board_map, answer.fds[1].get(), spec);
}

/// From here on requests go to the new daemon; what the old one did not answer goes there first.
void Device::Impl::resend(Connection fresh) {
  const std::lock_guard lock(mutex);
  connection = std::move(fresh);
  std::vector<OpenCommit> open;
  for (auto& [id, commit] : commits) open.push_back(std::move(commit));
  commits.clear();
  std::ranges::sort(open, {}, [](const OpenCommit& c) { return c.message.index; });
  for (OpenCommit& commit : open) {
    commit.message.header.request = connection.next_request();
    // Of a daemon that died again: the reader will see, and come here once more.
    (void)connection.send(commit.message);
    commits.emplace(commit.message.header.request, std::move(commit));
  }
  if (leaving) {
    (void)connection.send(shm::make_plain(shm::MessageType::kDetach, connection.next_request()));
  }
  lost = false;
}

Result<void> Device::Impl::reconnect() {
  const Deadline deadline = Deadline::after(options.reconnect);
  {
    const std::lock_guard lock(mutex);
    lost = true;
  }
  while (!deadline.passed()) {
    if (stopping(milliseconds(0))) return tl::unexpected(daemon_lost(options.socket));
    NPU_TRY(auto fresh, come_back(deadline));
    if (fresh) {
      resend(std::move(*fresh));
      return {};
    }
    if (stopping(kTryEvery)) return tl::unexpected(daemon_lost(options.socket));
    // The daemon lives and has ended the run: only this connection was lost.
    if (queue->over()) return tl::unexpected(*queue->failure());
  }
  return tl::unexpected(gave_up(
      options.socket, fmt::format("none took the run over within {} s (collectives.reconnect)",
                                  static_cast<double>(options.reconnect.count()) / 1000.0)));
}

}  // namespace npu::client
