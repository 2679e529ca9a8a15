#include "client/api/device.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "client/api/device_impl.hpp"
#include "shm/base/rank_list.hpp"
#include "shm/futex.hpp"
#include "shm/segment.hpp"

namespace npu::client {

namespace {

using Promise = std::promise<Result<CheckpointReport>>;

CheckpointReport to_report(const shm::CheckpointDone& done) {
  return {done.step, shm::get_text(done.path), done.bytes, done.durable_ms};
}

}  // namespace

/// Runs in a forked child. The reader thread is the parent's: nobody can be joined here, and
/// nothing may be locked that it could hold.
void Device::Impl::orphan() noexcept {
  if (queue) queue->orphan();
  (void)std::make_unique<std::thread>(std::move(reader)).release();
  connection.close();
  stop_event.reset();
  for (UniqueFd& fd : kept) fd.reset();
  if (const int fd = sought.load(); fd >= 0) (void)::close(fd);
  for (shm::Mapping* mapping : {&arena_map, &submit_map, &status_map, &board_map, &hints_map}) {
    mapping->forget();
  }
}

Result<void> Device::Impl::map(shm::Received& answer) {
  if (!answer.is<shm::Attached>() ||
      answer.fds.size() != (options.reconnect.count() > 0 ? 6U : 5U)) {
    return fail(Code::kUnavailable,
                "attach device {}: the daemon answered with type {} and {} descriptors",
                options.device, answer.header().type, answer.fds.size());
  }
  const auto attached = answer.as<shm::Attached>();
  generation = attached.generation;
  shm::SegmentSpec spec{.generation = generation, .rank = options.rank};
  spec.size_bytes = attached.arena_bytes;
  NPU_TRY(arena_map, shm::map_received(answer.fds[0].get(), spec));
  spec.kind = shm::SegmentKind::kSubmit;
  spec.size_bytes = sizeof(shm::SubmitPage);
  NPU_TRY(submit_map, shm::map_received(answer.fds[1].get(), spec));
  spec.kind = shm::SegmentKind::kStatus;
  spec.size_bytes = sizeof(shm::StatusPage);
  NPU_TRY(status_map, shm::map_received(answer.fds[2].get(), spec));
  spec.kind = shm::SegmentKind::kBoard;
  spec.size_bytes = sizeof(shm::RunBoard);
  spec.rank = 0;
  NPU_TRY(board_map, shm::map_received(answer.fds[3].get(), spec));
  spec.kind = shm::SegmentKind::kHints;
  spec.size_bytes = sizeof(shm::RunHints);
  NPU_TRY(hints_map, shm::map_received(answer.fds[4].get(), spec));
  if (options.reconnect.count() > 0) {
    for (const size_t i : {0, 1, 2, 4, 5}) kept.push_back(std::move(answer.fds[i]));
  }
  open_world();
  return {};
}

void Device::Impl::open_world() {
  DevicePlace place;
  place.submit = &submit();
  place.status = reinterpret_cast<const shm::StatusPage*>(status_map.data());
  place.board = &board();
  place.hints = reinterpret_cast<shm::RunHints*>(hints_map.data());
  place.arena = arena_map.bytes();
  place.staging = place.arena.last(options.staging_bytes);
  place.env = env;
  place.generation = generation;
  place.rank = options.rank;
  place.world = options.world;
  place.failed = &failed;
  place.failure = [this] {
    const std::lock_guard lock(mutex);
    return error.value_or(daemon_lost(options.socket));
  };
  queue.emplace(std::move(place));
  Membership everyone{0, options.rank, options.world, {}};
  std::iota(everyone.world_ranks.begin(), everyone.world_ranks.end(), uint8_t{0});
  world = std::make_unique<Communicator>(*queue, everyone);
}

Result<void> Device::Impl::wait_complete() {
  const Deadline deadline = Deadline::after(options.join_timeout);
  for (;;) {
    const uint32_t bell = board().doorbell.value.load(std::memory_order_seq_cst);
    const auto state =
        static_cast<shm::RunState>(board().members.state.load(std::memory_order_acquire));
    if (state == shm::RunState::kRunning) return {};
    if (state == shm::RunState::kAborted) {
      const auto code = static_cast<Code>(board().abort.code);
      return tl::unexpected(Error{code, shm::get_text(board().abort.text), abort_exit(code)});
    }
    if (failed.load(std::memory_order_acquire)) {
      const std::lock_guard lock(mutex);
      return tl::unexpected(*error);
    }
    if (deadline.passed()) {
      const uint32_t absent = ~board().members.joined_mask.load(std::memory_order_acquire) &
                              ((1U << options.world) - 1);
      return fail(Code::kDeadlineExceeded,
                  "join run '{}': rank(s) {} of {} did not come within {} s", options.run,
                  rank_list(absent), options.world,
                  static_cast<double>(options.join_timeout.count()) / 1000.0);
    }
    // The doorbell was read before the state, so a change in between ends the sleep at once.
    submit().rank.waiting.fetch_add(1, std::memory_order_seq_cst);
    shm::futex_wait(board().doorbell.value, bell, deadline.remaining(shm::kWaitSlice));
    submit().rank.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
}

void Device::Impl::start_reader() {
  reader = std::thread([this] { read_loop(); });
}

void Device::Impl::stop_reader() {
  if (!reader.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_event.get(), &one, sizeof(one));
  reader.join();
  fail_all(daemon_lost(options.socket));
}

void Device::Impl::fail_all(const Error& why) {
  std::map<uint64_t, OpenCommit> pending;
  {
    const std::lock_guard lock(mutex);
    if (!error) error = why;
    pending.swap(commits);
  }
  failed.store(true, std::memory_order_release);
  for (auto& [request, open] : pending) open.promise.set_value(tl::unexpected(why));
}

void Device::Impl::on_message(const shm::Received& message) {
  const uint64_t request = message.header().request;
  const bool says_why = message.size == sizeof(shm::ErrorReply);
  // An error that answers nothing is why the daemon ends the connection.
  if (says_why && (message.type() == shm::MessageType::kAborted ||
                   (message.type() == shm::MessageType::kError && request == 0))) {
    const Error why = to_error(message.as<shm::ErrorReply>());
    fail_all(why);
    if (options.on_failure) options.on_failure(why);
    return;
  }
  Promise promise;
  {
    const std::lock_guard lock(mutex);
    if (message.type() == shm::MessageType::kEnd) {
      left = true;
      return;
    }
    const auto found = commits.find(request);
    if (found == commits.end()) return;
    promise = std::move(found->second.promise);
    commits.erase(found);
  }
  if (message.is<shm::CheckpointDone>()) {
    promise.set_value(to_report(message.as<shm::CheckpointDone>()));
  } else if (message.is<shm::ErrorReply>()) {
    promise.set_value(tl::unexpected(to_error(message.as<shm::ErrorReply>())));
  } else {
    promise.set_value(fail(Code::kUnavailable,
                           "checkpoint: the daemon answered with message type {}",
                           message.header().type));
  }
}

/// For good.
void Device::Impl::on_lost(const Error& why) {
  bool expected = false;
  {
    const std::lock_guard lock(mutex);
    expected = leaving;
    left = true;
  }
  fail_all(why);
  // While the run forms, attach() itself may try again.
  const bool heard = joined.load(std::memory_order_acquire) || kept.empty();
  if (!expected && heard && options.on_failure) options.on_failure(why);
}

void Device::Impl::read_loop() {
  shm::Received message;
  for (;;) {
    const auto status = shm::receive(connection.fd(), message);
    if (status == shm::ReceiveStatus::kMessage) {
      on_message(message);
      continue;
    }
    if (status != shm::ReceiveStatus::kEmpty) {
      Error why = daemon_lost(options.socket);
      if (may_reconnect()) {
        auto back = reconnect();
        if (back) continue;
        if (stopping(milliseconds(0))) return;
        why = std::move(back.error());
      }
      on_lost(why);
      return;
    }
    pollfd fds[2] = {{connection.fd(), POLLIN, 0}, {stop_event.get(), POLLIN, 0}};
    (void)::poll(fds, 2, -1);
    if ((fds[1].revents & POLLIN) != 0) return;
  }
}

Device::Device(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Device::~Device() = default;

Result<std::unique_ptr<Device>> Device::attach(const AttachOptions& options) {
  Deadline deadline = Deadline::never();  // from the first loss on
  for (;;) {
    const auto begin = Clock::now();
    auto device = attach_once(options);
    // A daemon that dies while the run forms knows nothing of it when it comes back, and nothing
    // has happened yet: the ranks attach anew.
    const bool lost = !device && device.error().exit == Exit::kNoDaemon &&
                      device.error().code == Code::kUnavailable;
    if (!lost || options.reconnect.count() <= 0 || deadline.passed()) return device;
    // One that was there for a while is a new loss.
    const bool was_there = Clock::now() - begin > milliseconds(1000);
    if (deadline.is_never() || was_there) deadline = Deadline::after(options.reconnect);
    (void)::poll(nullptr, 0, static_cast<int>(kTryEvery.count()));
  }
}

Result<std::unique_ptr<Device>> Device::attach_once(const AttachOptions& options) {
  if (options.staging_bytes > options.arena_bytes || options.world > shm::kMaxDevices) {
    return fail(Code::kInvalidArgument,
                "attach device {}: a staging region of {} bytes in an arena of {} bytes, world of "
                "{} ranks; at most the arena, and {} ranks",
                options.device, options.staging_bytes, options.arena_bytes, options.world,
                shm::kMaxDevices);
  }
  NPU_TRY(const CollectiveEnv env,
          collective_environment([](const char* name) { return std::getenv(name); }));
  NPU_TRY(Connection connection, Connection::open(options.socket));
  auto impl = std::make_unique<Impl>(options, std::move(connection));
  impl->env = env;
  impl->options.join_timeout = env.join_timeout.value_or(options.join_timeout);
  auto attach = shm::make_message<shm::Attach>(impl->connection.next_request());
  attach.arena_bytes = options.arena_bytes;
  attach.job_hash = options.job_hash;
  attach.survives = options.reconnect.count() > 0 ? 1 : 0;
  attach.world = options.world;
  attach.rank = options.rank;
  attach.device = options.device;
  shm::put_text(attach.run, options.run);
  shm::put_text(attach.key, options.run_key);
  NPU_TRY_VOID(impl->connection.send(attach));
  NPU_TRY(shm::Received answer, impl->connection.receive(Deadline::after(kRequestLimit)));
  NPU_TRY_VOID(impl->map(answer));
  impl->stop_event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->stop_event.valid()) return fail_errno("create the device's eventfd");
  impl->start_reader();
  impl->fork_guard.emplace([raw = impl.get()] { raw->orphan(); });
  NPU_TRY_VOID(impl->wait_complete());
  impl->joined.store(true, std::memory_order_release);
  return std::unique_ptr<Device>(new Device(std::move(impl)));
}

std::span<std::byte> Device::arena() noexcept {
  const auto all = impl_->arena_map.bytes();
  return all.first(all.size() - impl_->options.staging_bytes);
}
Communicator& Device::world() noexcept { return *impl_->world; }
const CollectiveEnv& Device::environment() const noexcept { return impl_->env; }
uint32_t Device::rank() const noexcept { return impl_->options.rank; }
uint64_t Device::generation() const noexcept { return impl_->generation; }

std::optional<Error> Device::failure() const { return impl_->world->failure(); }

Result<Stream> Device::create_stream() {
  uint32_t used = impl_->streams.load(std::memory_order_relaxed);
  for (;;) {
    const auto id = static_cast<uint8_t>(std::countr_one(used));
    if (id >= shm::kMaxStreams) {
      return fail(Code::kResourceExhausted, "create a stream: all {} are in use; destroy one",
                  shm::kMaxStreams);
    }
    if (impl_->streams.compare_exchange_weak(used, used | (1u << id), std::memory_order_relaxed))
      return Stream{id};
  }
}

void Device::destroy_stream(Stream stream) noexcept {
  if (stream.id != 0) impl_->streams.fetch_and(~(1u << stream.id), std::memory_order_relaxed);
}

uint64_t Device::staged_copies() const noexcept {
  if (impl_->orphaned()) return 0;
  return impl_->submit().rank.staged_copies.load(std::memory_order_relaxed);
}

void Device::set_progress(uint64_t step) noexcept {
  if (impl_->orphaned()) return;
  impl_->submit().rank.progress.store(step, std::memory_order_relaxed);
}

void Device::describe_training(std::string_view arch, std::string_view precision) noexcept {
  if (!impl_->orphaned()) shm::describe_training(impl_->submit().progress, arch, precision);
}

void Device::report_step(const shm::StepReport& step) noexcept {
  if (!impl_->orphaned()) shm::report_step(impl_->submit().progress, step);
}

void Device::report_validation(double loss, double top1, double top5) noexcept {
  if (!impl_->orphaned()) shm::report_validation(impl_->submit().progress, loss, top1, top5);
}

std::future<Result<CheckpointReport>> Device::commit_checkpoint(shm::CheckpointCommit commit) {
  Promise promise;
  auto future = promise.get_future();
  Impl& impl = *impl_;
  if (impl.orphaned()) {
    promise.set_value(tl::unexpected(*failure()));
    return future;
  }
  const std::lock_guard lock(impl.mutex);
  if (impl.error) {
    promise.set_value(tl::unexpected(*impl.error));
    return future;
  }
  const uint64_t request = impl.connection.next_request();
  commit.header = shm::make_message<shm::CheckpointCommit>(request).header;
  commit.index = impl.commits_made;
  // To a daemon that is gone it is sent when there is one again.
  const auto sent = impl.lost ? Result<void>() : impl.connection.send(commit);
  const bool later = !sent && sent.error().code == Code::kUnavailable && !impl.kept.empty();
  if (!sent && !later) {
    promise.set_value(tl::unexpected(sent.error()));
    return future;
  }
  ++impl.commits_made;
  impl.commits.emplace(request, OpenCommit{commit, std::move(promise)});
  return future;
}

Result<void> Device::detach() {
  Impl& impl = *impl_;
  if (impl.orphaned()) return tl::unexpected(*failure());
  {
    const std::lock_guard lock(impl.mutex);
    if (impl.error) return tl::unexpected(*impl.error);
    impl.leaving = true;
    const auto sent = impl.lost ? Result<void>()
                                : impl.connection.send(shm::make_plain(
                                      shm::MessageType::kDetach, impl.connection.next_request()));
    if (!sent && impl.kept.empty()) return sent;
  }
  const Deadline deadline = Deadline::after(std::chrono::seconds(5) + impl.options.reconnect);
  while (!deadline.passed()) {
    {
      const std::lock_guard lock(impl.mutex);
      if (impl.left) return {};
    }
    (void)::poll(nullptr, 0,
                 1);  // the reader takes the answer; this is the end of the program, not a hot path
  }
  return fail(Code::kDeadlineExceeded, "detach: the daemon at '{}' did not answer",
              impl.options.socket);
}

}  // namespace npu::client
