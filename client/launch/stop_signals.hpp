// The signals that ask a supervisor to stop, as a descriptor to poll instead of handlers.
#pragma once

#include <csignal>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {

/// Blocks SIGINT, SIGTERM, SIGHUP and SIGTSTP for the calling thread while it lives and hands them
/// out by descriptor; also ignores SIGPIPE and gives SIGCHLD its default, so that children can be
/// reaped. One a program, made by the main thread before any other thread or child exists.
class StopSignals {
 public:
  [[nodiscard]] static Result<StopSignals> make();
  StopSignals(StopSignals&& other) noexcept;
  StopSignals& operator=(StopSignals&&) = delete;
  ~StopSignals();

  /// Readable while a signal waits.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// The next waiting signal, 0 when there is none.
  [[nodiscard]] int next() noexcept;

 private:
  StopSignals(UniqueFd fd, const sigset_t& before) noexcept : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace npu::client
