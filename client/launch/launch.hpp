// A whole job: a daemon, one process per device, and the end of both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/launch/private_daemon.hpp"
#include "client/launch/restart.hpp"
#include "client/launch/supervisor.hpp"
#include "client/render/renderer.hpp"

namespace npu::client {

enum class DaemonMode : uint8_t {
  kAuto,     // one that answers, else a private one
  kRequire,  // one that answers, else an error
  kPrivate,  // a private one in any case
};

struct DaemonChoice {
  std::string socket{};  // explicit; empty: the default places
  DaemonMode mode = DaemonMode::kAuto;
  std::string state_dir{};  // of a private daemon
};

/// A daemon to talk to; `owned` is empty when it was there before us.
struct DaemonAccess {
  std::string socket{};
  std::unique_ptr<PrivateDaemon> owned{};
};

/// Finds or starts the daemon. Errors: unavailable naming the paths that were tried;
/// PrivateDaemon::start's.
[[nodiscard]] Result<DaemonAccess> open_daemon(const DaemonChoice& choice, StopSignals* signals);

/// The same for a command that only reads checkpoints: it may also ask another command's private
/// daemon, which holds the state directory at that moment.
[[nodiscard]] Result<DaemonAccess> open_store(const DaemonChoice& choice);

struct LaunchOptions {
  std::string job_file{};
  std::string run{};                     // name of the job
  std::vector<std::string> overrides{};  // "a.b=v", handed to every rank
  std::vector<int> devices{};            // of the job; rank i drives devices[i]
  DaemonChoice daemon{};
  SupervisorOptions supervisor{};
  RestartPolicy restart{};
  /// Stands in line for busy devices, at most that long; a zero: as long as it takes. Nothing: busy
  /// devices are an error.
  std::optional<milliseconds> wait{};
  bool bind = true;                    // client/launch/cores.hpp
  bool share_pictures = false;         // the ranks keep decoded images in one memory
  bool keep_ranks = true;  // when the private daemon dies: it is started again and they go on
  std::function<void()> on_restart{};  // before the ranks are started again; may be empty
};

/// Compute threads for each of `world` ranks on this host: its processors divided by the ranks, at
/// least 1.
[[nodiscard]] int threads_per_rank(int world) noexcept;

/// Runs the job to its end, restarting it as `restart` allows, and has its last checkpoint
/// verified. Returns the exit code of the launcher. Errors: open_daemon's; supervise's; aborted,
/// exit 128 + signal, when it is stopped between two attempts. Thread: the main thread, before any
/// other was started.
[[nodiscard]] Result<int> launch(const LaunchOptions& options, Renderer& renderer);

}  // namespace npu::client
