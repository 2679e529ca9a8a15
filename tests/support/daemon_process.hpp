// A real npud for a test: started as a process, killed and reaped at the end.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace npu::test {

class DaemonProcess {
 public:
  /// Starts npud and waits until it answers; aborts the test program if it does not within 10 s.
  /// `extra_args` may have a --state-dir in place of its own. `environment`: "NAME=value" that it
  /// gets besides ours.
  explicit DaemonProcess(std::vector<std::string> extra_args = {},
                         std::vector<std::string> environment = {});
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  /// Starts it again in the same place after stop().
  void start();
  /// The same without waiting until it answers: for one that may die before that.
  void spawn();
  /// For the next start().
  void set_environment(std::vector<std::string> environment) {
    environment_ = std::move(environment);
  }
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  [[nodiscard]] std::string state_dir() const { return dir_.path() + "/state"; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Sends the signal and waits for the end; returns the wait status.
  int stop(int signal);
  /// Microseconds of processor time that the daemon has used.
  [[nodiscard]] uint64_t cpu_us() const;

 private:
  TempDir dir_;
  std::string socket_;
  std::vector<std::string> args_, environment_;
  pid_t pid_ = -1;
};

/// Path of a program of this build ("npud", "npu").
[[nodiscard]] std::string program(const std::string& name);

}  // namespace npu::test
