// The signals that ask a supervisor to stop, as a descriptor to poll instead of handlers.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {

/// A signal and who sent it.
struct StopSignal {
  int number = 0;
  int64_t pid = 0;  // 0: the kernel, for a terminal
  int64_t uid = -1;

  explicit operator bool() const noexcept { return number != 0; }
  /// "SIGTERM from pid 4711, uid 0"; without a sender "SIGINT".
  [[nodiscard]] std::string text() const;
};

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
  /// The next waiting signal, false when there is none.
  [[nodiscard]] StopSignal next() noexcept;

 private:
  StopSignals(UniqueFd fd, const sigset_t& before) noexcept : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace npu::client
