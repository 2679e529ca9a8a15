// What lies between a failed attempt and the next: waiting that a signal ends, and questions to the
// daemon (docs/design/015-restart.md).
#pragma once

#include <optional>
#include <string>

#include "client/launch/child.hpp"
#include "client/launch/stop_signals.hpp"
#include "shm/base/clock.hpp"
#include "shm/base/error.hpp"

namespace npu::client {

/// Sleeps for `time`; SIGTSTP suspends the program. Errors: aborted, exit 128 + signal, when a
/// signal asked to stop: "stopped by SIGTERM while `doing`".
[[nodiscard]] Result<void> pause_for(StopSignals& signals, milliseconds time,
                                     const std::string& doing);

/// The same when it need not wait: only looks what signals there are.
[[nodiscard]] Result<void> check_signals(StopSignals& signals, const std::string& doing);

/// Waits until a daemon answers at `socket`. `owned` (may be null) is its process: when that has
/// ended there is nothing to wait for. Errors: unavailable naming socket and limit; what a daemon
/// says that answers but refuses; pause_for's.
[[nodiscard]] Result<void> await_daemon(const std::string& socket, milliseconds limit,
                                        StopSignals& signals, Child* owned);

/// Waits until the daemon shows no run of this user's under that name, or `limit` has passed: the
/// next attempt would be told that another launch is going on. Errors: pause_for's.
[[nodiscard]] Result<void> await_departure(const std::string& socket, const std::string& run,
                                           milliseconds limit, StopSignals& signals);

struct NewestCheckpoint {
  int64_t step = 0;
  std::string path{};
  int64_t unix_time = 0;
  bool operator==(const NewestCheckpoint&) const = default;
};

/// By the list of the store, which waits for one that is being written. Nothing if there is none,
/// or the daemon does not say.
[[nodiscard]] std::optional<NewestCheckpoint> newest_checkpoint(const std::string& socket,
                                                                const std::string& run);

}  // namespace npu::client
