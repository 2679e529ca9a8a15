// The state of a Device, shared by the files that implement it: device.cpp, and
// device_reconnect.cpp (a daemon that comes back).
#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "client/api/connection.hpp"
#include "client/api/device.hpp"
#include "client/api/fork_guard.hpp"
#include "shm/segment.hpp"

namespace npu::client {

/// How often a rank looks for a daemon that died.
inline constexpr milliseconds kTryEvery{50};

/// A commit that the daemon has not answered.
struct OpenCommit {
  shm::CheckpointCommit message;
  std::promise<Result<CheckpointReport>> promise;
};

struct Device::Impl {
  explicit Impl(AttachOptions opts, Connection conn)
      : options(std::move(opts)), connection(std::move(conn)) {}
  ~Impl() { stop_reader(); }

  [[nodiscard]] Result<void> map(shm::Received& answer);
  [[nodiscard]] Result<void> wait_complete();
  void open_world();
  void start_reader();
  void stop_reader();
  void read_loop();
  void on_lost(const Error& why);
  void on_message(const shm::Received& message);
  void fail_all(const Error& error);

  // device_reconnect.cpp
  [[nodiscard]] bool may_reconnect();
  [[nodiscard]] Result<void> reconnect();
  [[nodiscard]] Result<std::optional<Connection>> come_back(Deadline deadline);
  [[nodiscard]] Result<void> take_pages(const shm::Received& answer);
  void resend(Connection fresh);
  [[nodiscard]] shm::Reconnect reconnect_message(uint64_t request);
  [[nodiscard]] bool stopping(milliseconds wait) const noexcept;

  void orphan() noexcept;
  /// True in a forked child, where neither lock nor page may be touched.
  [[nodiscard]] bool orphaned() const noexcept { return queue && queue->orphaned(); }
  [[nodiscard]] const shm::RunBoard& board() const {
    return *reinterpret_cast<const shm::RunBoard*>(board_map.data());
  }
  [[nodiscard]] shm::SubmitPage& submit() {
    return *reinterpret_cast<shm::SubmitPage*>(submit_map.data());
  }

  AttachOptions options;
  CollectiveEnv env;
  Connection connection;
  uint64_t generation = 0;
  shm::Mapping arena_map, submit_map, status_map, board_map, hints_map;
  // What a daemon that starts again is given back, in this order; empty if that is not wanted.
  std::vector<UniqueFd> kept;  // arena, submit page, status page, hints, journal
  std::optional<DeviceQueue> queue;
  std::unique_ptr<Communicator> world;
  UniqueFd stop_event;
  std::thread reader;
  // Control path only; never taken on the collective path.
  std::mutex mutex;
  std::map<uint64_t, OpenCommit> commits;  // by request
  uint64_t commits_made = 0;
  bool lost = false;  // the connection is gone and a new one is sought
  std::optional<Error> error;
  bool leaving = false;
  bool left = false;
  std::atomic<int> sought{-1};       // the socket of a daemon that may take the run over
  std::atomic<bool> joined{false};   // the run is complete
  std::atomic<bool> failed{false};   // release after `error` is set
  std::atomic<uint32_t> streams{1};  // bit i: stream i is in use
  std::optional<ForkGuard> fork_guard;
};

}  // namespace npu::client
