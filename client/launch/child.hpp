// One child process that cannot outlive its parent, leave a zombie or leak a descriptor.
// Start from the program's main thread only: the kernel's parent-death signal follows the thread.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "shm/base/error.hpp"
#include "shm/base/fd.hpp"

namespace npu::client {

/// How a process ended.
struct ExitStatus {
  bool by_signal = false;
  int value = 0;  // signal number or exit code

  [[nodiscard]] bool ok() const noexcept { return !by_signal && value == 0; }
  /// The code a shell would report: 128 + signal, or the exit code.
  [[nodiscard]] int code() const noexcept { return by_signal ? 128 + value : value; }
};

/// "killed by SIGSEGV" or "exit code 3".
[[nodiscard]] std::string describe(const ExitStatus& status);

struct ChildSpec {
  std::string path{};               // what is executed
  std::vector<std::string> argv{};  // argv[0] is the name that ps shows
  std::vector<std::string> env{};   // "NAME=value", all of it
  int death_signal = SIGKILL;       // what the kernel sends when this process dies
  int stdout_fd = -1;               // -1: this process's own
  int stderr_fd = -1;
  std::vector<int> keep_fds{};  // stay open across exec, under the same numbers
  int core = -1;                // the only processor it may use, -1 = as this process
};

/// Owns a running or exited, not yet reaped process that leads a process group of its own.
/// Invariants: (1) until it is reaped its pid and group cannot be reused, so signals hit no
/// stranger; (2) before it is reaped its whole group is killed; (3) the destructor kills and reaps.
/// Thread: the one that started it.
class Child {
 public:
  /// fork + exec; stdin is /dev/null, signal handling and mask are the defaults.
  /// Errors: what exec says (not_found, permission_denied), resource_exhausted.
  [[nodiscard]] static Result<Child> start(const ChildSpec& spec);

  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Readable once the process has ended.
  [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }
  [[nodiscard]] bool alive() const noexcept { return pid_ > 0 && !status_; }

  /// To the whole group; nothing once it is reaped. A stopped group is continued, or SIGTERM would
  /// wait.
  void signal(int number) noexcept;

  /// The status if the process has ended, reaping it; never blocks.
  std::optional<ExitStatus> poll() noexcept;
  /// Waits for the end without a limit; call after SIGKILL.
  ExitStatus wait() noexcept;

 private:
  Child(pid_t pid, UniqueFd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
  std::optional<ExitStatus> reap(int flags) noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

struct Pipe {
  UniqueFd read_end, write_end;
};

/// Close-on-exec at both ends; the read end does not block.
[[nodiscard]] Result<Pipe> make_pipe();

}  // namespace npu::client
