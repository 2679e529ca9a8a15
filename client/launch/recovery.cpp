#include "client/launch/recovery.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "client/api/admin.hpp"

namespace npu::client {
namespace {

constexpr milliseconds kAskEvery{100}, kLookEvery{50};

}  // namespace

Result<void> pause_for(StopSignals& signals, milliseconds time, const std::string& doing) {
  const Deadline deadline = Deadline::after(std::max(time, milliseconds(1)));
  while (!deadline.passed()) {
    pollfd ready{signals.fd(), POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(deadline.remaining(time));
    ::poll(&ready, 1, static_cast<int>(left.count()));
    NPU_TRY_VOID(check_signals(signals, doing));
  }
  return {};
}

Result<void> check_signals(StopSignals& signals, const std::string& doing) {
  const StopSignal signal = signals.next();
  if (signal.number == SIGTSTP) {
    ::kill(::getpid(), SIGSTOP);  // continues here after SIGCONT
  } else if (signal) {
    Error error{Code::kAborted, fmt::format("stopped by {} while {}", signal.text(), doing),
                Exit::kInternal};
    error.exit = static_cast<Exit>(128 + signal.number);
    return tl::make_unexpected(std::move(error));
  }
  return {};
}

Result<void> await_daemon(const std::string& socket, milliseconds limit, StopSignals& signals,
                          Child* owned) {
  const Deadline deadline = Deadline::after(limit);
  for (;;) {
    if (owned != nullptr && owned->poll()) {
      return fail(Code::kUnavailable, "the private npud ended: {}", describe(*owned->poll()));
    }
    auto found = find_daemon(socket);
    if (found) return {};
    const Code code = found.error().code;
    if (code != Code::kUnavailable && code != Code::kDeadlineExceeded) {
      return tl::make_unexpected(std::move(found.error()));
    }
    if (deadline.passed()) {
      return fail(Code::kUnavailable,
                  "no daemon answers at '{}' after {} s of waiting; start npud again, the run "
                  "resumes from its newest checkpoint",
                  socket, std::chrono::duration<double>(limit).count());
    }
    NPU_TRY_VOID(pause_for(signals, kAskEvery, "waiting for the daemon to come back"));
  }
}

Result<void> await_departure(const std::string& socket, const std::string& run, milliseconds limit,
                             StopSignals& signals) {
  const Deadline deadline = Deadline::after(limit);
  for (;;) {
    const auto info = query_info(socket);
    const auto ours = [&run](const RunInfo& r) {
      return r.name == run && r.uid == static_cast<int64_t>(::getuid()) && r.state != "aborted";
    };
    // A daemon that does not answer is the next attempt's news.
    if (!info || std::ranges::none_of(info->runs, ours) || deadline.passed()) return {};
    NPU_TRY_VOID(pause_for(signals, kLookEvery, "waiting for the failed ranks to be gone"));
  }
}

std::optional<NewestCheckpoint> newest_checkpoint(const std::string& socket,
                                                  const std::string& run) {
  const auto all = list_checkpoints(socket, run, false);
  if (!all) return std::nullopt;
  for (const CheckpointInfo& c : *all) {
    if (c.latest) return NewestCheckpoint{.step = c.step, .path = c.path, .unix_time = c.unix_time};
  }
  return std::nullopt;
}

}  // namespace npu::client
