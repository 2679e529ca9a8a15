// Whether a daemon may take runs over: not if two before it died in the attempt. A file in the
// runtime directory, which outlives a daemon, counts.
#pragma once

#include <string>

namespace npu::daemon {

/// Thread: the control server. A file that cannot be written is ignored: the service manager bounds
/// restarts, too.
class CrashGuard {
 public:
  static constexpr int kMostDeaths = 2;

  CrashGuard() = default;
  /// Reads what earlier daemons left. Where there were too many deaths, the count begins anew with
  /// the next daemon.
  explicit CrashGuard(const std::string& runtime_dir);

  [[nodiscard]] bool allowed() const noexcept { return deaths_ < kMostDeaths; }
  [[nodiscard]] int deaths() const noexcept { return deaths_; }
  /// A rank came back: from here on a death counts.
  void begin() noexcept;
  /// A run that was taken over has gone on: earlier deaths are forgotten.
  void end() noexcept;
  /// None was taken over after all: the count is what it was.
  void withdraw() noexcept;

 private:
  void write(int count) const noexcept;

  std::string path_;
  int deaths_ = 0;
  bool counting_ = false;
};

}  // namespace npu::daemon
