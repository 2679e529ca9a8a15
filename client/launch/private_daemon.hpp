// A daemon of one's own: started when none answers, gone when the command that needed it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/launch/child.hpp"
#include "client/launch/stop_signals.hpp"
#include "shm/base/clock.hpp"

namespace npu::client {

/// $XDG_STATE_HOME/npud, ~/.local/state/npud or /tmp/npud-<uid>/state: where an unprivileged daemon
/// keeps checkpoints, so that the next private daemon finds them again.
[[nodiscard]] std::string default_state_dir();

/// npud beside this program's binary, else in PATH. Errors: not_found saying where it was looked
/// for.
[[nodiscard]] Result<std::string> find_npud();

/// A private daemon of the calling user that some other command runs right now.
struct PrivateInstance {
  std::string socket;
  std::string state_dir;
};

/// Those that are alive; for commands that only ask. Nobody should attach a job to one: it goes
/// away.
[[nodiscard]] std::vector<PrivateInstance> live_private_daemons();

struct PrivateDaemonOptions {
  std::string npud{};       // binary; find_npud() when empty
  std::string state_dir{};  // default_state_dir() when empty
  milliseconds ready_limit{10'000};
  milliseconds stop_grace{30'000};  // TERM to KILL; the daemon finishes staged checkpoints in it
  StopSignals* signals = nullptr;   // a signal ends any wait for the daemon; not owned
};

/// A running `npud --launcher-only` with a runtime directory (0700) of its own. The directory holds
/// a lock that daemon and launcher share, so a later start can tell a directory left by a killed
/// launcher and removes it. Thread: the main thread. Ownership: the destructor stops the daemon and
/// removes the directory.
class PrivateDaemon {
 public:
  /// Returns once the socket takes connections. Errors: not_found (no npud), unavailable (it ended
  /// while starting), deadline_exceeded, aborted (a stop signal came).
  [[nodiscard]] static Result<std::unique_ptr<PrivateDaemon>> start(
      const PrivateDaemonOptions& options);
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;
  ~PrivateDaemon();

  [[nodiscard]] std::string socket() const { return runtime_dir_ + "/npud.sock"; }
  [[nodiscard]] const std::string& state_dir() const noexcept { return state_dir_; }
  [[nodiscard]] Child& child() noexcept { return *child_; }

  /// Starts it again where it was, after its death; child() is the new one at once, the socket
  /// takes connections a moment later. False if it cannot be started, or died kMostShortLives times
  /// in a row within half a second of its start, without any use (`was_of_use`: the ranks made a
  /// step under it): then it would again.
  [[nodiscard]] bool respawn(bool was_of_use) noexcept;
  static constexpr int kMostShortLives = 5;

 private:
  PrivateDaemon(const PrivateDaemonOptions& options, std::string state_dir)
      : options_(options), state_dir_(std::move(state_dir)) {}
  Result<void> make_runtime_dir();
  Result<void> spawn(const std::string& npud);
  Result<void> wait_until_ready();
  void stop() noexcept;

  PrivateDaemonOptions options_;
  std::string state_dir_, runtime_dir_;
  UniqueFd lock_;
  std::optional<Child> child_;
  std::string npud_;
  Clock::time_point started_{};
  int short_lives_ = 0;
};

}  // namespace npu::client
